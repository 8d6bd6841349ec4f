-- Readers go on without tenants when the last grant of all is taken.
create or replace function saga.tenant_revoke(role name, tenant text)
returns void
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    delete from saga.tenant_reader t
     where t.role = tenant_revoke.role and t.tenant = tenant_revoke.tenant;
    if not found then
        raise exception 'role "%" was not granted the tenant "%"', tenant_revoke.role,
              tenant_revoke.tenant using errcode = 'undefined_object';
    end if;
end
$$;
comment on function saga.tenant_revoke(name, text) is
    'Takes a tenant from a role. With the last grant of all every reader sees every run again. [admin]';
