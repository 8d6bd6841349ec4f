-- Which alerts were told to whom, so that each is told at least once, and not again for ever.

create table saga.alert (
    target  text collate "C" not null,
    shard   smallint not null,
    kind    text collate "C" not null check (kind in ('parked', 'breaker')),
    run_id  text collate "C" not null,
    service text collate "C" not null,
    mark    bigint not null,
    id      bigint not null generated always as identity,
    since   timestamptz not null default clock_timestamp(),
    told_at timestamptz,
    primary key (target, shard, kind, run_id, service)
) with (autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);
comment on table saga.alert is
    'What targets of alerts were told, or are to be told. A row goes when what it tells is over.';
comment on column saga.alert.shard is 'of the run; -1: a breaker, which is of all';
comment on column saga.alert.run_id is 'that is parked; "": a breaker';
comment on column saga.alert.service is 'whose breaker is open; "": a run';
comment on column saga.alert.mark is 'number of the event that parked the run; 0: a breaker';
comment on column saga.alert.id is 'in the order in which they were noticed';
create index alert_pending on saga.alert (target, id) where told_at is null;

-- Parked runs are few among the open ones, and looked for often.
create index run_parked on saga.run (shard, run_id) where state = 'parked';
