-- The history of a run after a number: {"events": [{seq, at, step_id, what, detail}], "ended"}.
-- Null if there is no such run.
create or replace function saga.events_json_v1(p_run_id text, p_after bigint)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object(
        'events', coalesce((
            select json_agg(json_build_object(
                       'seq', t.seq, 'at', saga.time_text(t.at), 'step_id', t.step_id,
                       'what', t.what, 'detail', t.detail) order by t.seq)
              from saga.timeline t
             where t.run_id = p_run_id and t.seq > p_after), '[]'),
        'ended', r.ended_at is not null)
      from saga.run r
     where r.shard = saga.shard_of(p_run_id) and r.run_id = p_run_id;
$$;
comment on function saga.events_json_v1(text, bigint) is
    'The history of a run as JSON. [engine, operator, reader]';
