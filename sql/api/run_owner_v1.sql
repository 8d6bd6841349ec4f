-- Who carries the shard of a run. Null: nobody now; empty: there is no such run.
create or replace function saga.run_owner_v1(p_run_id text)
returns text
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select case when exists (select from saga.run_key k
                              where k.shard = saga.shard_of(p_run_id) and k.run_id = p_run_id)
                then (select l.daemon
                        from saga.shard s join saga.lane l on l.lane_no = s.lane_no
                       where s.shard = saga.shard_of(p_run_id))
                else '' end;
$$;
comment on function saga.run_owner_v1(text) is
    'The daemon that carries the run; empty: there is no such run. [engine]';
