-- The first call of a participant's transaction. What it answers:
--
--   proceed   do it, then call saga_guard.done, then commit. Of an undo, `answer` is what the
--             action that it undoes has answered.
--   replay    it was done before: answer `answer` again, do nothing
--   refused   it was undone before it came, or since: answer a final "no", do nothing
--   nothing   an undo of what was never done: commit, answer success. From now on the action that
--             it names is refused
--   conflict  the key was used for something else: answer a 4xx, do nothing
--   expired   it was done before, and the answer is not kept any more: answer a final "no"
--
-- The key is inserted first, so nothing happens between a look and an act: a second caller waits
-- for the first one's transaction, then sees what it did, or that it did not. Above READ COMMITTED
-- it gets a serialization failure (40001) instead, and is simply tried again. It waits no longer
-- than lock_timeout (55P03): "in progress, try later".
create or replace function saga_guard.claim(key text, request_hash text,
                                            direction text default 'execute',
                                            compensates text default null,
                                            out verdict text, out answer json)
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    valid timestamptz := clock_timestamp() + (select p.ttl from saga_guard.promise p);
    mine saga_guard.effect;
    forward saga_guard.effect;
    fresh boolean;
begin
    if claim.request_hash is null then
        raise exception 'a claim needs a request hash'
            using errcode = '22004', hint = 'of a JSON body: saga_guard.hash(body)';
    end if;
    if claim.direction = 'compensate' and claim.compensates is null then
        raise exception 'an undo names the key that it undoes'
            using errcode = '22004', hint = 'callers send it as Saga-Compensates';
    end if;
    if claim.compensates = claim.key then
        raise exception 'an undo has a key of its own' using errcode = '22023';
    end if;

    insert into saga_guard.effect (key, direction, state, compensates, request_hash, valid_until)
    values (claim.key, claim.direction, 'claimed', claim.compensates, claim.request_hash, valid)
        on conflict do nothing;
    fresh := found;
    select * into strict mine from saga_guard.effect e where e.key = claim.key for update;

    if not fresh then
        answer := mine.answer;
        verdict := case
            when mine.state = 'barred' and claim.direction = 'execute' then 'refused'
            when (mine.direction, mine.request_hash, coalesce(mine.compensates, ''))
                 is distinct from
                 (claim.direction, claim.request_hash, coalesce(claim.compensates, ''))
                then 'conflict'
            when mine.undone_by is not null then 'refused'
            when mine.state = 'nothing' then 'nothing'
            when mine.forgotten then 'expired'
            when mine.state = 'claimed' then 'proceed' -- twice in one transaction
            else 'replay' end;
        if verdict in ('refused', 'conflict') then
            answer := null;
        end if;
        return;
    end if;

    verdict := 'proceed';
    if claim.direction = 'compensate' then
        insert into saga_guard.effect (key, direction, state, undone_by, valid_until)
        values (claim.compensates, 'execute', 'barred', claim.key, valid)
            on conflict do nothing;
        select * into strict forward
          from saga_guard.effect e where e.key = claim.compensates for update;
        if forward.direction <> 'execute' then
            raise exception 'the key "%" is not one of an action', claim.compensates
                using errcode = '22023';
        elsif forward.state <> 'applied' or forward.undone_by is not null then
            verdict := 'nothing';
            update saga_guard.effect e set state = 'nothing' where e.key = claim.key;
            -- What was refused then must not be done later either.
            update saga_guard.effect e set undone_by = claim.key
             where e.key = claim.compensates and e.undone_by is null;
        else
            answer := forward.answer;
        end if;
    end if;
end
$$;
comment on function saga_guard.claim(text, text, text, text) is
    'First call of a transaction: proceed, replay, refused, nothing, conflict or expired. Arguments: Idempotency-Key, a hash of the request, execute or compensate, Saga-Compensates. [participant]';
