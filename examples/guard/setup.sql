-- A wallet service's own database. First: sagad guard --print | psql ...
--
-- Each request is one call of a function here, in one transaction: the claim, the wallet's rows and
-- the answer are there together, or none of them is.
create schema wallet;
create table wallet.account (id text primary key, balance numeric not null check (balance >= 0));
create table wallet.charge (
    id bigint generated always as identity primary key,
    account text not null references wallet.account,
    amount numeric not null check (amount > 0),
    key text not null,
    refunded boolean not null default false
);
create table wallet.book (id bigint generated always as identity primary key, note text, key text);
insert into wallet.account values ('ann', 100), ('bob', 100);

-- What a claim that did not say "proceed" means over HTTP: {status, body}.
create function wallet.answer_of(verdict text, kept json) returns json language sql stable as $$
    select case verdict
        when 'replay'   then kept
        when 'nothing'  then '{"status": 200, "body": {"refunded": false}}'
        when 'refused'  then '{"status": 409, "body": {"code": "undone", "message": "it was undone"}}'
        when 'conflict' then '{"status": 422, "body": {"code": "key_reused", "message": "the key was used for another request"}}'
        when 'expired'  then '{"status": 410, "body": {"code": "expired", "message": "it was done; the answer is not kept any more"}}'
    end::json;
$$;

-- POST /charges {account, amount}
create function wallet.charge(key text, body jsonb) returns json language plpgsql as $$
declare
    claim record;
    id bigint;
    answer json;
begin
    select * into claim from saga_guard.claim(key, saga_guard.hash(body));
    if claim.verdict <> 'proceed' then
        return wallet.answer_of(claim.verdict, claim.answer);
    end if;
    update wallet.account a set balance = a.balance - (body ->> 'amount')::numeric
     where a.id = body ->> 'account' and a.balance >= (body ->> 'amount')::numeric;
    if not found then -- a refusal, kept like any answer: applied => false
        answer := '{"status": 402, "body": {"code": "too_little", "message": "too little money"}}';
        perform saga_guard.done(key, answer, false);
        return answer;
    end if;
    insert into wallet.charge (account, amount, key)
    values (body ->> 'account', (body ->> 'amount')::numeric, charge.key)
    returning charge.id into id;
    answer := json_build_object('status', 201, 'body', json_build_object('id', id));
    perform saga_guard.done(key, answer);
    return answer;
end
$$;

-- POST /refunds; Saga-Compensates says which charge: it need not have been answered, nor have come.
create function wallet.refund(key text, compensates text, body jsonb) returns json language plpgsql as $$
declare
    claim record;
    answer json;
begin
    select * into claim from saga_guard.claim(key, saga_guard.hash(body), 'compensate', compensates);
    if claim.verdict <> 'proceed' then
        return wallet.answer_of(claim.verdict, claim.answer);
    end if;
    with back as (
        update wallet.charge c set refunded = true where c.key = refund.compensates
        returning c.account, c.amount)
    update wallet.account a set balance = a.balance + back.amount from back where a.id = back.account;
    answer := json_build_object('status', 200, 'body', json_build_object('refunded', true));
    perform saga_guard.done(key, answer);
    return answer;
end
$$;
