-- Which installation this is; a restored copy is the same one.
create or replace function saga.installation_v1()
returns text
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select m.installation::text from saga.meta m;
$$;
comment on function saga.installation_v1() is 'Which installation this is. [engine]';
