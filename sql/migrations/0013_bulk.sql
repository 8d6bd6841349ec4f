-- Verbs for many runs at once, and what the views tell operators.

alter table saga.workflow add column compensatable_for interval;
comment on column saga.workflow.compensatable_for is
    'how long after its end a completed run may be undone; null: never, or it was not kept';

create table saga.bulk_request (
    bulk_id         text collate "C" primary key,
    shard           smallint not null,
    verb            text not null,
    filter          json not null,
    body            json not null,
    reason          text not null,
    actor           text not null,
    at              timestamptz not null default clock_timestamp(),
    rate            double precision not null,
    max_error_share double precision not null,
    total           integer not null,
    released        integer not null default 0,
    done            integer not null default 0,
    refused         integer not null default 0,
    credit_at       timestamptz not null,
    stopped         text,
    ended_at        timestamptz
);
create index bulk_open on saga.bulk_request (shard) where ended_at is null;
comment on table saga.bulk_request is
    'A verb for many runs. The owner of its shard puts one request after the other into the inbox.';
comment on column saga.bulk_request.shard is 'shard_of(bulk_id)';
comment on column saga.bulk_request.body is 'the body of each request';
comment on column saga.bulk_request.credit_at is
    'the rate has been used up to this time; what passed since then may be released';
comment on column saga.bulk_request.stopped is 'why nothing more is released; null: it goes on';

create table saga.bulk_run (
    bulk_id text collate "C" not null,
    number  integer not null,
    run_id  text collate "C" not null,
    outcome text,
    answer  text,
    primary key (bulk_id, number)
);
create index bulk_run_open on saga.bulk_run (bulk_id, number) where outcome is null;
comment on table saga.bulk_run is
    'A run of saga.bulk_request. Its request is the row BULK_ID.NUMBER of saga.inbox.';
