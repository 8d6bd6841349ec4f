-- A daemon has found its lane at an earlier number than was acknowledged to it. Notes that, with the
-- starts that it had acknowledged since and that are not here: p_starts, as [[id, workflow, time],
-- ...]. From then on every run that is older than this is suspect (saga.suspects). Called under the
-- lease, before any run is loaded. Answers how many open runs are.
create or replace function saga.rewind_v1(
    p_daemon text, p_acked_seq bigint, p_acked_at timestamptz, p_found_seq bigint,
    p_found_at timestamptz, p_starts json)
returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_no integer;
    v_at timestamptz := clock_timestamp();
begin
    insert into saga.rewind (at, daemon, acked_seq, acked_at, found_seq, found_at)
    values (v_at, p_daemon, p_acked_seq, p_acked_at, p_found_seq, p_found_at)
    returning no into v_no;
    insert into saga.lost_start (rewind_no, shard, run_id, workflow, acked_at)
    select v_no, saga.shard_of(s.pair ->> 0), s.pair ->> 0, s.pair ->> 1,
           (s.pair ->> 2)::timestamptz
      from json_array_elements(p_starts) s (pair)
     where not exists (select from saga.run_key k
                        where k.shard = saga.shard_of(s.pair ->> 0) and k.run_id = s.pair ->> 0)
        on conflict do nothing;
    return (select count(*) from saga.run r where r.ended_at is null and r.created_at < v_at);
end
$$;
comment on function saga.rewind_v1(text, bigint, timestamptz, bigint, timestamptz, json) is
    'Notes that the database is older than what was acknowledged. [engine]';
