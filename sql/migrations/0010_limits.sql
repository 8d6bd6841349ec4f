-- What waits for room at its service, and the breakers that daemons share.

create type saga.waits_for as enum ('limit', 'breaker');
alter table saga.effect add column waits_for saga.waits_for;
comment on column saga.effect.waits_for is
    'of a waiting one: room at its service, which its limits or its breaker do not leave; null: '
    'something else';

create table saga.service_state (
    service    text collate "C" not null,
    daemon     text collate "C" not null,
    state      text not null check (state in ('closed', 'open', 'half_open')),
    open_until timestamptz,
    changed_at timestamptz not null,
    primary key (service, daemon)
) with (fillfactor = 50);
comment on table saga.service_state is
    'Breakers as each daemon sees them, written when one changes. One that is open anywhere is open '
    'everywhere.';
comment on column saga.service_state.open_until is 'when it is tried again; null: it is not open';

-- They take and give more now; no daemon of a released version calls them.
drop function if exists saga.load_v1(bigint, smallint, text, integer);
drop function if exists saga.load_run_v1(text);
drop view if exists saga.run_image_v1;
drop function if exists saga.load_v2(bigint, smallint, text, integer);
drop function if exists saga.load_run_v2(text);
drop view if exists saga.run_image_v2;
alter type saga.effect_v2 add attribute waits_for text;
