-- One run, whatever its state; no row if there is none.
create or replace function saga.load_run_v2(p_run_id text)
returns setof saga.run_image_v2
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set jit = off
as $$
    select i.*
      from saga.run_image_v2 i
     where i.shard = saga.shard_of(p_run_id) and i.run_id = p_run_id;
$$;
comment on function saga.load_run_v2(text) is 'One run in any state. [engine]';
