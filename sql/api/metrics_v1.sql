-- What waits for somebody, of open runs: looked up by their keys, since a scraper asks again and again.
create or replace function saga.metrics_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    with open as (
        select r.shard, r.run_id,
               case when r.state = 'parked' then r.park_reason end as park_reason
          from saga.run r where r.ended_at is null)
    select json_build_object(
        'unknown', (select count(*)
                      from open o
                      join saga.effect e on e.shard = o.shard and e.run_id = o.run_id
                     where e.state = 'unknown'
                        or (e.maybe_applied and e.state in ('claimed', 'retrying'))),
        'approvals', (select count(*) from saga.pending_approvals),
        'dead', (select coalesce(json_object_agg(d.reason, d.runs), '{}')
                   from (select o.park_reason as reason, count(*) as runs
                           from open o where o.park_reason is not null group by 1) d));
$$;
comment on function saga.metrics_v1() is
    'What waits for somebody: unknown outcomes, approvals, dead letters by reason. [engine]';
