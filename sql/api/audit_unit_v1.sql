-- What people did in one unit: events that name an actor, and requests that were refused. What runs
-- and schedules do to runs is no act of a person, and what an act leads to stands in saga.event.
-- Most units hold neither, and are looked through at little cost.
create or replace function saga.audit_unit_v1(p_events saga.event_v1[], p_inbox saga.inbox_v1[])
returns void
language plpgsql
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_acts saga.audit_act[];
begin
    if p_events is not null then
        v_acts := array(
            select (e.shard, 0, e.at, e.what, e.actor, e.run_id, e.step, e.detail, 'done',
                    '')::saga.audit_act
              from unnest(p_events) e
             where e.actor <> '' and e.actor !~ '^run:'
               and e.what not in ('turned back', 'parked', 'late answer', 'late success',
                                  'output failed', 'output invalid', 'child timed out', 'signal',
                                  'answer')
             order by e.run_id, e.seq);
    end if;
    if exists (select from unnest(p_inbox) u where u.outcome <> 'done') then
        v_acts := v_acts || array(
            select (i.shard, 0, clock_timestamp(), i.kind, i.actor, i.run_id,
                    coalesce(i.body ->> 'step', ''), coalesce(i.body ->> 'reason', ''),
                    split_part(u.outcome, ':', 1) || ': ' || u.answer, '')::saga.audit_act
              from (select * from unnest(p_inbox) offset 0) u
              join saga.inbox i on i.shard = u.shard and i.id = u.id
             where u.outcome <> 'done'
               and i.kind not in ('start', 'signal', 'answer', 'complete', 'fail', 'heartbeat')
             order by i.run_id, i.id);
    end if;
    if cardinality(v_acts) > 0 then
        perform saga.audit_append_v1(v_acts);
    end if;
end
$$;
comment on function saga.audit_unit_v1(saga.event_v1[], saga.inbox_v1[]) is
    'Appends what people did in one unit to the audit chains.';
