-- saga.load_v2 as daemons below schema version 2 call it.
create or replace function saga.load_v1(p_shards bigint, p_after_shard smallint, p_after_id text,
                                        p_limit integer)
returns setof saga.run_image_v1
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select i.*
      from saga.load_v2(p_shards, p_after_shard, p_after_id, p_limit) n
     cross join lateral saga.load_run_v1(n.run_id) i
     order by i.shard, i.run_id;
$$;
comment on function saga.load_v1(bigint, smallint, text, integer) is
    'Open runs of some shards, page by page. [engine]';
