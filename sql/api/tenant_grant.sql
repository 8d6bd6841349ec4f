-- With the first grant tenants begin to count: from then on a reader sees the runs of the tenants
-- that it was granted, and one without a grant sees none. Operators and the daemon see all.
create or replace function saga.tenant_grant(role name, tenant text)
returns void
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    if tenant_grant.tenant is null or tenant_grant.tenant = '' then
        raise exception 'name the tenant, or * for all' using errcode = 'invalid_parameter_value';
    end if;
    if not exists (select from pg_roles r where r.rolname = tenant_grant.role) then
        raise exception 'there is no role "%"', tenant_grant.role
              using errcode = 'undefined_object';
    end if;
    insert into saga.tenant_reader (role, tenant) values (tenant_grant.role, tenant_grant.tenant)
        on conflict do nothing;
end
$$;
comment on function saga.tenant_grant(name, text) is
    'Lets a role that reads see the runs of a tenant; * for all. [admin]';
