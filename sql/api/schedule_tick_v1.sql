-- Deals with one tick, in one transaction, so that a crash or a second daemon changes nothing:
--   started  its run is in the inbox of the run's owner
--   skipped  the run of the tick before is open, and `overlap` says skip
--   busy     the same, and `overlap` says queue: ask again
--   other    the tick was dealt with before, or the definition is another one
create or replace function saga.schedule_tick_v1(
    p_workflow text, p_hash bytea, p_tick timestamptz, p_run_id text, p_body json,
    p_next timestamptz)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_row saga.schedule;
    v_open boolean;
begin
    select * into v_row from saga.schedule s
     where s.shard = saga.shard_of(p_workflow) and s.workflow = p_workflow for update;
    if v_row.workflow is null or v_row.workflow_hash <> p_hash or v_row.last_tick >= p_tick then
        return 'other';
    end if;
    v_open := saga.schedule_open_v1(v_row.last_run);
    if v_open and v_row.overlap = 'queue' then
        return 'busy';
    end if;
    if v_open then
        update saga.schedule s
           set last_tick = p_tick, next_tick = p_next, skipped = s.skipped + 1,
               last_skipped = p_tick
         where s.shard = v_row.shard and s.workflow = p_workflow;
        return 'skipped';
    end if;
    insert into saga.inbox (shard, id, kind, run_id, workflow_hash, body, actor)
    values (saga.shard_of(p_run_id), 'schedule-' || p_run_id, 'start', p_run_id, p_hash, p_body,
            'schedule')
    on conflict do nothing;
    update saga.schedule s
       set last_tick = p_tick, next_tick = p_next, last_run = p_run_id
     where s.shard = v_row.shard and s.workflow = p_workflow;
    return 'started';
end
$$;
comment on function saga.schedule_tick_v1(text, bytea, timestamptz, text, json, timestamptz) is
    'Starts or skips the run of one tick. [engine]';
