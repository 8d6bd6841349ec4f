-- What people did in one unit: events that name an actor, and requests that were refused. What runs
-- and schedules do to runs is no act of a person, and what an act leads to stands in saga.event.
create or replace function saga.audit_unit_v1(p_events saga.event_v1[], p_inbox saga.inbox_v1[])
returns void
language sql
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.audit_append_v1(a.acts)
      from (select array_agg((x.shard, 0, x.at, x.verb, x.actor, x.run_id, x.step, x.reason,
                              x.outcome, '')::saga.audit_act order by x.run_id, x.place) as acts
              from (select e.shard, e.at, e.what as verb, e.actor, e.run_id, e.step,
                           e.detail as reason, 'done' as outcome, e.seq as place
                      from unnest(p_events) e
                     where e.actor <> '' and e.actor !~ '^run:'
                       and e.what not in ('turned back', 'parked', 'late answer', 'late success',
                                          'output failed', 'output invalid', 'child timed out',
                                          'signal', 'answer')
                    union all
                    select i.shard, clock_timestamp(), i.kind, i.actor, i.run_id,
                           coalesce(i.body ->> 'step', ''), coalesce(i.body ->> 'reason', ''),
                           u.outcome || ': ' || u.answer, 2147483647
                      from unnest(p_inbox) u
                      join saga.inbox i on i.shard = u.shard and i.id = u.id
                     where u.outcome <> 'done'
                       and i.kind not in ('start', 'signal', 'answer', 'complete', 'fail',
                                          'heartbeat')
                   ) x) a
     where a.acts is not null;
$$;
comment on function saga.audit_unit_v1(saga.event_v1[], saga.inbox_v1[]) is
    'Appends what people did in one unit to the audit chains.';
