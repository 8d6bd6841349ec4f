-- What the shop believes and what the bank says, in the engine's database; its SQL actions run as saga_action.
create schema shop;
create table shop.payment (
    id    text primary key,
    day   date not null,
    cents bigint not null
);
create table shop.bank_line (
    payment text primary key,
    day     date not null,
    cents   bigint not null
);
create table shop.reconciled (
    since       date not null,
    until       date primary key,
    corrections int -- null: not done yet
);
create unique index one_at_a_time on shop.reconciled ((true)) where corrections is null;
grant usage on schema shop to saga_action;
grant select on shop.payment, shop.bank_line to saga_action;
grant select, insert, update, delete on shop.reconciled to saga_action;
