-- The bank's own tables, in the database of the engine; its SQL actions run as saga_action.
create schema bank;
create table bank.account (
    id      text primary key,
    balance numeric(20, 2) not null check (balance >= 0),
    open    boolean not null default true
);
create table bank.entry (
    transfer text primary key,
    debit    text not null,
    credit   text not null,
    amount   numeric(20, 2) not null,
    booked   timestamptz not null default now()
);
insert into bank.account (id, balance, open) values ('ann', 100, true), ('bob', 0, true), ('zoe', 0, false);
grant usage on schema bank to saga_action;
grant select, insert, update, delete on bank.account, bank.entry to saga_action;
