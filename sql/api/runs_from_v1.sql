-- A run's own columns as daemons below schema version 2 give them: no budget of the way back. null:
-- null.
create or replace function saga.runs_from_v1(p_runs saga.run_v1[])
returns saga.run_v2[]
language sql immutable
as $$
    select case when p_runs is not null then
               array(select row(x.*, null::timestamptz)::saga.run_v2
                       from pg_catalog.unnest(p_runs) x) end;
$$;
comment on function saga.runs_from_v1(saga.run_v1[]) is 'Runs of older daemons.';
