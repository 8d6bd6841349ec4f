-- Runs of the same lock wait for each other.

alter table saga.run add column lock text collate "C";
comment on column saga.run.lock is
    'the value that it must hold before it does anything; null: its workflow has no lock';
alter type saga.start_v2 add attribute lock text;

create table saga.lock_ticket (
    shard      smallint not null,
    run_id     text collate "C" not null,
    tenant     text collate "C" not null,
    lock       text collate "C" not null,
    ticket     bigint not null generated always as identity,
    since      timestamptz not null default clock_timestamp(),
    held_since timestamptz,
    primary key (shard, run_id)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
comment on table saga.lock_ticket is
    'Runs that hold or wait for a lock. The row goes with the unit that ends the run.';
comment on column saga.lock_ticket.ticket is 'the smallest is the next to hold it';
comment on column saga.lock_ticket.held_since is 'null: it waits';
-- Whatever else goes wrong: there is one holder.
create unique index lock_holder on saga.lock_ticket (tenant, lock) where held_since is not null;
create index lock_queue on saga.lock_ticket (lock, tenant, ticket);
