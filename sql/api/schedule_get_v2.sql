-- Where a schedule stands, in RFC 3339: its last tick, and until when the run of that tick was open
-- (now if it is; null: there was none). One that is new, or whose definition has changed, begins
-- now. Called by the daemon that owns the shard of the workflow's name.
create or replace function saga.schedule_get_v2(
    p_workflow text, p_hash bytea, p_cron text, p_zone text, p_overlap text, p_catch_up text,
    p_next timestamptz)
returns json
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_row saga.schedule;
    v_busy timestamptz;
begin
    insert into saga.schedule as s (shard, workflow, workflow_hash, cron, zone, overlap, catch_up,
                                    last_tick, next_tick)
    values (saga.shard_of(p_workflow), p_workflow, p_hash, p_cron, p_zone, p_overlap, p_catch_up,
            clock_timestamp(), p_next)
    on conflict (shard, workflow) do update
       set last_tick = case when s.workflow_hash = p_hash then s.last_tick
                            else clock_timestamp() end,
           workflow_hash = p_hash, cron = p_cron, zone = p_zone, overlap = p_overlap,
           catch_up = p_catch_up, next_tick = p_next
    returning s.* into v_row;
    v_busy := case when saga.schedule_open_v1(v_row.last_run) then clock_timestamp()
                   else (select coalesce(r.ended_at, k.closed_at) -- its data may be gone
                           from saga.run_key k
                           left join saga.run r on r.shard = k.shard and r.run_id = k.run_id
                          where k.shard = saga.shard_of(v_row.last_run)
                            and k.run_id = v_row.last_run) end;
    return json_build_object('last', saga.time_text(v_row.last_tick),
                             'busy_until', saga.time_text(v_busy));
end
$$;
comment on function saga.schedule_get_v2(text, bytea, text, text, text, text, timestamptz) is
    'Where a schedule stands. [engine]';
