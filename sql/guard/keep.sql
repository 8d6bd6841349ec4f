-- What the owner decides: for how long answers are promised, when they are dropped, who may use it.

create or replace function saga_guard.promise_ttl(ttl interval)
returns void
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    update saga_guard.promise set ttl = promise_ttl.ttl;
$$;
comment on function saga_guard.promise_ttl(interval) is
    'Sets for how long answers are kept, for keys claimed from now on; older ones keep what was promised then. Callers declare the same `ttl`, or less. For the owner.';

-- Drops answers past their time, at most `most` of them, and says how many. The keys stay, so that
-- nothing is done a second time for want of a memory: a repeat is told "expired", and an undo finds
-- what was done. Nothing younger than its promise can be dropped, whatever is passed.
create or replace function saga_guard.forget(spare interval default '0', most integer default 10000)
returns bigint
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
declare
    dropped bigint;
begin
    if spare < '0' then
        raise exception 'answers cannot be dropped before their time'
            using errcode = '22023',
                  hint = 'the promise is kept in saga_guard.promise; spare only adds to it';
    end if;
    with old as (
        select e.key from saga_guard.effect e
         where e.answer is not null and e.valid_until + spare < clock_timestamp()
         limit most
           for update skip locked)
    update saga_guard.effect e set answer = null, forgotten = true
      from old where e.key = old.key;
    get diagnostics dropped = row_count;
    return dropped;
end
$$;
comment on function saga_guard.forget(interval, integer) is
    'Drops answers that are older than promised, plus `spare`; keys stay. Returns how many; call it again until 0. For the owner, daily or so.';

create or replace function saga_guard.allow(role name)
returns void
language plpgsql volatile
set search_path = pg_catalog, pg_temp
as $$
begin
    execute format('grant usage on schema saga_guard to %I', role);
    execute format('grant execute on function saga_guard.claim(text, text, text, text), '
                   'saga_guard.done(text, json, boolean), saga_guard.hash(jsonb), '
                   'saga_guard.canonical(jsonb) to %I', role);
    execute format('grant select on saga_guard.keys, saga_guard.help to %I', role);
end
$$;
comment on function saga_guard.allow(name) is
    'Lets a role claim, answer and look: what a participant needs, and no more. For the owner.';
