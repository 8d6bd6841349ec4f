-- With the first row of saga.tenant_reader a reader sees what that table gives it. Views and the
-- functions that readers call belong to saga_views, who owns no table, so the policies on tables
-- (grants.sql) hold in them. Units and the daemon's functions run as the owner of the tables, for
-- whom they do not.
--
-- The daemon asks for callers of its socket that are bound to tenants: it says so in saga.tenants, a
-- JSON list, for one statement. Anybody else's setting of that name means nothing.
create or replace function saga.tenants_seen()
returns text[]
language sql stable parallel safe security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    -- Inside such functions current_user is their owner; what the session set is still known.
    with me as (
        select coalesce(nullif(current_setting('role', true), 'none'), session_user::text) as name)
    select case
        when coalesce(current_setting('saga.tenants', true), '') <> ''
             and pg_has_role(me.name, 'saga_engine', 'member')
             then array(select json_array_elements_text(current_setting('saga.tenants')::json))
        when not exists (select from saga.tenant_reader) then null
        when pg_has_role(me.name, 'saga_operator', 'member')
             or pg_has_role(me.name, 'saga_engine', 'member') then null
        when exists (select from saga.tenant_reader t join pg_roles r on r.rolname = t.role
                      where t.tenant = '*' and pg_has_role(me.name, r.oid, 'member')) then null
        else array(select t.tenant from saga.tenant_reader t join pg_roles r on r.rolname = t.role
                    where pg_has_role(me.name, r.oid, 'member')) end
      from me;
$$;
comment on function saga.tenants_seen() is
    'The tenants whose runs the caller sees; null: all. [engine, operator, reader]';
