-- Every lane, for daemons that watch each other. Wall clocks are not among it: who is dead is
-- decided by how long (epoch, beat) stood still on the observer's own clock.
create or replace function saga.lanes_v1()
returns table (lane text, daemon text, kind text, epoch bigint, beat bigint, ttl_us bigint,
               clean boolean, shards bigint)
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select l.lane, l.daemon, l.kind::text, l.epoch, l.beat,
           (extract(epoch from l.ttl) * 1000000)::bigint, l.clean,
           coalesce((select bit_or(1::bigint << s.shard) from saga.shard s
                      where s.lane_no = l.lane_no), 0)
      from saga.lane l
     order by l.daemon, l.lane;
$$;
comment on function saga.lanes_v1() is 'Every lane with the shards that it carries. [engine]';
