-- saga_guard: what a participant on PostgreSQL needs to do each thing once.
--
-- It stands alone: no part of the engine is needed in this database, and where the engine's own
-- schema `saga` lives in the same one, neither touches the other. That is why it has a schema of
-- its own: it belongs to the participant, who installs, grants and keeps it.
--
-- Running this script again changes nothing that is right already. Nothing is granted to PUBLIC;
-- afterwards, as the owner: select saga_guard.allow('the_role_of_your_service');
-- Start with: select * from saga_guard.help;
create schema if not exists saga_guard;
comment on schema saga_guard is
    'Participant kit of Saga: repeated requests, undo of nothing, late requests. See saga_guard.help.';
revoke all on schema saga_guard from public;

create table if not exists saga_guard.promise (
    one boolean primary key default true check (one),
    ttl interval not null default '7 days' check (ttl > '0')
);
comment on table saga_guard.promise is
    'One row: for how long answers are kept, as you promise it to your callers.';
comment on column saga_guard.promise.one is 'Always true: there is one row.';
comment on column saga_guard.promise.ttl is
    'What callers declare as `ttl`. Set by saga_guard.promise_ttl; holds for keys claimed from then on.';
insert into saga_guard.promise values (default, default) on conflict do nothing;

create table if not exists saga_guard.effect (
    key text collate "C" primary key check (octet_length(key) between 1 and 255),
    direction text collate "C" not null check (direction in ('execute', 'compensate')),
    state text collate "C" not null
        check (state in ('claimed', 'applied', 'refused', 'nothing', 'barred')),
    compensates text collate "C" check (octet_length(compensates) between 1 and 255),
    request_hash text collate "C" check (octet_length(request_hash) between 1 and 255),
    undone_by text collate "C",
    claimed_at timestamptz not null default clock_timestamp(),
    valid_until timestamptz not null,
    forgotten boolean not null default false,
    answer json,
    check ((direction = 'compensate') = (compensates is not null)),
    check ((state = 'barred') = (request_hash is null)),
    check (state <> 'barred' or direction = 'execute'),
    check (state <> 'nothing' or direction = 'compensate')
) with (fillfactor = 50);
comment on table saga_guard.effect is
    'One row is a key that was used here, with the answer that it got. Rows are never removed.';
comment on column saga_guard.effect.key is 'As the caller sent it (Idempotency-Key).';
comment on column saga_guard.effect.direction is 'execute: something is done; compensate: undone.';
comment on column saga_guard.effect.state is
    'claimed: only inside the transaction that claims; applied; refused: answered, nothing was done; nothing: there was nothing to undo; barred: undone before it came, must not be done any more.';
comment on column saga_guard.effect.compensates is
    'Of an undo: the key that it undoes (Saga-Compensates).';
comment on column saga_guard.effect.request_hash is
    'What the key was used for; the same key with another hash is a conflict. Null: barred.';
comment on column saga_guard.effect.undone_by is 'The key of the undo, once there was one.';
comment on column saga_guard.effect.claimed_at is 'When the key was first seen.';
comment on column saga_guard.effect.valid_until is
    'Its answer is kept at least until then: the claim plus the ttl promised at that time.';
comment on column saga_guard.effect.forgotten is 'The answer was dropped by saga_guard.forget.';
comment on column saga_guard.effect.answer is 'What was answered, digit by digit as it was given.';
