-- Starts as daemons below schema version 2 give them: nothing delayed, no children, no locks. null: null.
create or replace function saga.starts_from_v1(p_starts saga.start_v1[])
returns saga.start_v2[]
language sql immutable
as $$
    select case when p_starts is not null then
               array(select row(x.*, null::timestamptz, ''::text, 0::smallint, ''::text)::saga.start_v2
                       from pg_catalog.unnest(p_starts) x) end;
$$;
comment on function saga.starts_from_v1(saga.start_v1[]) is 'Starts of older daemons.';
