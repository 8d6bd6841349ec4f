-- What a daemon asks first: may it work with this schema? It may if min_version <= its own version
-- <= schema_version. A higher own version means: run "sagad migrate".
create or replace function saga.schema_version_v1(out schema_version integer,
                                                  out min_version integer, out installation uuid)
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select m.schema_version, m.min_version, m.installation from saga.meta m;
$$;
comment on function saga.schema_version_v1() is
    'Versions of the schema, and who this installation is. [engine, operator, reader]';
