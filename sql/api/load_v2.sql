-- Open runs of the shards whose bit is set, in pages: those after (after_shard, after_id), in that
-- order. Runs set apart, and those parked with crash_loop, are left out: loading them may be what
-- crashes.
create or replace function saga.load_v2(p_shards bigint, p_after_shard smallint, p_after_id text,
                                        p_limit integer)
returns setof saga.run_image_v2
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set jit = off
as $$
    select i.*
      from saga.run_image_v2 i
     where i.ended_at is null
       and p_shards >> i.shard & 1 = 1
       and (i.shard, i.run_id) > (p_after_shard, p_after_id)
       and i.park_reason is distinct from 'crash_loop'
       and not exists (select from saga.run r
                        where r.apart and r.shard = i.shard and r.run_id = i.run_id)
     order by i.shard, i.run_id
     limit p_limit;
$$;
comment on function saga.load_v2(bigint, smallint, text, integer) is
    'Open runs of some shards, page by page. [engine]';
