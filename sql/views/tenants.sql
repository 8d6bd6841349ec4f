create or replace view saga.tenants as
select t.role, t.tenant
  from saga.tenant_reader t
  join pg_catalog.pg_roles r on r.rolname = t.role
 where saga.tenants_seen() is null
    or pg_catalog.pg_has_role(coalesce(nullif(pg_catalog.current_setting('role', true), 'none'),
                                       session_user::text), r.oid, 'member');
comment on view saga.tenants is
    'Which readers see the runs of which tenants (saga.tenant_grant, saga.tenant_revoke). Empty: every '
    'reader sees every run.';
comment on column saga.tenants.role is 'the role; its members count as it does';
comment on column saga.tenants.tenant is 'the tenant; * means all of them';
