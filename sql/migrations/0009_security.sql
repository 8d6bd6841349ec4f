-- What people did, in chains of hashes; and which readers see the runs of which tenants.

create table saga.audit_act (
    chain   smallint not null check (chain between 0 and 64),
    no      bigint not null,
    at      timestamptz not null,
    verb    text not null,
    actor   text not null,
    run_id  text collate "C" not null,
    step    text not null,
    reason  text not null,
    outcome text not null,
    hash    bytea not null check (pg_catalog.length(hash) = 32),
    primary key (chain, no)
);
comment on table saga.audit_act is
    'Acts of people, never changed and never removed. Each row''s hash covers the one before it.';
comment on column saga.audit_act.chain is
    'a chain for each shard, so that nobody waits for another shard; 64: acts on no run';

create table saga.audit_head (
    chain smallint primary key,
    no    bigint not null,
    hash  bytea not null
) with (fillfactor = 50);
comment on table saga.audit_head is
    'The newest row of each chain; whoever appends holds its lock.';
insert into saga.audit_head (chain, no, hash)
select c, 0, pg_catalog.decode(pg_catalog.repeat('00', 32), 'hex')
  from pg_catalog.generate_series(0, 64) c;

create table saga.tenant_reader (
    role   name not null,
    tenant text collate "C" not null,
    primary key (role, tenant)
);
comment on table saga.tenant_reader is
    'Which roles see the runs of which tenants; empty: every reader sees every run.';
comment on column saga.tenant_reader.tenant is '*: of every tenant, and of none';

-- With the first row of saga.tenant_reader a reader sees what that table gives it. Views and the
-- functions that readers call belong to saga_views, who owns no table, so these policies hold in
-- them (grants.sql makes them for every table that has a run_id). Units and the daemon's functions
-- run as the owner of the tables, for whom they do not.
create function saga.tenants_seen()
returns text[]
language sql stable parallel safe security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    -- Inside such functions current_user is their owner; what the session set is still known.
    with me as (
        select coalesce(nullif(current_setting('role', true), 'none'), session_user::text) as name)
    select case
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
