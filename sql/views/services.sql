create or replace view saga.services as
with used as (
    select distinct x.step ->> 'service' as service
      from saga.workflow w
     cross join lateral pg_catalog.json_array_elements(w.steps) x (step)
     where w.current and x.step ->> 'service' is not null
    union
    select s.service from saga.service_state s
), busy as (
    select case e.direction when 'execute' then d.step ->> 'service'
                            else coalesce(d.step ->> 'compensate_service',
                                          d.step ->> 'service') end as service,
           pg_catalog.count(*) filter (where e.state = 'claimed') as in_flight,
           pg_catalog.count(*) filter (where e.state = 'waiting') as waiting
      from saga.shard s
      join saga.run r on r.shard = s.shard and r.ended_at is null
      join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
      join saga.effect e on e.shard = r.shard and e.run_id = r.run_id
       and (e.state = 'claimed'
            or (e.state = 'waiting' and e.waits_for::text in ('limit', 'breaker')))
      join saga.workflow w on w.hash = k.workflow_hash
     cross join lateral pg_catalog.json_array_elements(w.steps) d (step)
     where d.step ->> 'id' = e.step_id
     group by 1
), breakers as (
    select s.service,
           case when pg_catalog.bool_or(s.state = 'open'
                                        and s.open_until > pg_catalog.clock_timestamp())
                     then 'open'
                when pg_catalog.bool_or(s.state <> 'closed') then 'half_open'
                else 'closed' end as state,
           pg_catalog.max(s.open_until) filter (where s.state = 'open'
                                   and s.open_until > pg_catalog.clock_timestamp()) as open_until,
           pg_catalog.string_agg(s.daemon, ', ' order by s.daemon)
               filter (where s.state <> 'closed') as daemons
      from saga.service_state s
      join saga.daemons d on d.daemon = s.daemon and d.alive
     group by s.service
)
select u.service, coalesce(b.state, 'closed') as state,
       coalesce(x.in_flight, 0)::integer as in_flight, coalesce(x.waiting, 0)::integer as waiting,
       b.open_until, coalesce(b.daemons, '') as daemons,
       case b.state when 'open' then 'it failed too often: nothing is sent to it'
                    when 'half_open' then 'one request tries whether it works again'
                    else case when x.waiting > 0 then 'its limits leave no room' else '' end
            end as why
  from used u
  left join busy x on x.service = u.service
  left join breakers b on b.service = u.service;
comment on view saga.services is
    'Services that current workflows use: what is on its way to them, what waits, and whether their '
    'breaker is open.';
comment on column saga.services.service is 'its name in the workflows';
comment on column saga.services.state is
    'of its breaker: closed (requests are sent), open (none is), half_open (one tries)';
comment on column saga.services.in_flight is 'requests that are sent or about to be';
comment on column saga.services.waiting is
    'step instances that wait for room: its limits or its breaker let nothing through';
comment on column saga.services.open_until is 'when it is tried again; null: it is not open';
comment on column saga.services.daemons is 'the daemons whose breaker is not closed';
comment on column saga.services.why is 'the same in words; empty: nothing is in the way';
