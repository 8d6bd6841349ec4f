-- The parked run that an open one waits for, over as many locks and children as lie between: a
-- person must look at that one. Null: it waits for no such run.
create or replace function saga.behind_v1(p_run_id text)
returns json
language sql stable
set search_path = pg_catalog, saga, pg_temp
as $$
    with recursive chain (run_id, depth) as (
        select p_run_id collate "C", 0
        union all
        select n.run_id, c.depth + 1
          from chain c
         cross join lateral (
               select h.run_id
                 from saga.lock_ticket t
                 join saga.lock_ticket h on h.tenant = t.tenant and h.lock = t.lock
                                        and h.held_since is not null
                where t.shard = saga.shard_of(c.run_id) and t.run_id = c.run_id
                  and t.held_since is null
               union all
               select k.run_id
                 from saga.effect e
                 join saga.run k on k.shard = e.shard and k.parent = e.run_id
                                and k.ended_at is null
                                and (k.run_id = e.run_id || '~' || e.step_id ||
                                                case when e.item = '' then '' else '.' || e.item end
                                     or starts_with(k.run_id, e.run_id || '~' || e.step_id ||
                                                case when e.item = '' then '' else '.' || e.item end
                                                || '@'))
                where e.shard = saga.shard_of(c.run_id) and e.run_id = c.run_id
                  and e.state in ('claimed', 'retrying', 'waiting')) n
         where c.depth < 16)
    select json_build_object('run_id', r.run_id, 'reason', r.park_reason)
      from chain c
      join saga.run r on r.shard = saga.shard_of(c.run_id) and r.run_id = c.run_id
     where c.depth > 0 and r.state = 'parked'
     order by c.depth, r.run_id
     limit 1;
$$;
comment on function saga.behind_v1(text) is 'The parked run that this one waits for. [views]';
