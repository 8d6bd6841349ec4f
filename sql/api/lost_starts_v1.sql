-- Starts that were acknowledged, are gone, and have not come again: [[id, time], ...]. Who submits one
-- of them again gets a run that is suspect, because of what the first one may have done.
create or replace function saga.lost_starts_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select coalesce(json_agg(json_build_array(x.run_id, saga.time_text(x.acked_at))), '[]')
      from (select l.run_id, min(l.acked_at) as acked_at
              from saga.lost_start l
             where not exists (select from saga.run_key k
                                where k.shard = l.shard and k.run_id = l.run_id)
             group by l.run_id
             order by 2 desc
             limit 10000) x;
$$;
comment on function saga.lost_starts_v1() is 'Starts that a restore took away. [engine]';
