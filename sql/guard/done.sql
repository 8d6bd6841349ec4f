-- The last call of a participant's transaction: keeps the answer beside what was done. With
-- applied => false the answer is a refusal: it is given again like any other, and an undo finds
-- nothing to undo. (A refusal that may end otherwise next time is better rolled back than kept.)
create or replace function saga_guard.done(key text, answer json, applied boolean default true)
returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    forward text;
begin
    update saga_guard.effect e
       set state = case when done.applied then 'applied' else 'refused' end, answer = done.answer
     where e.key = done.key and e.state = 'claimed'
    returning e.compensates into forward;
    if not found then
        raise exception 'the key "%" was not claimed in this transaction', done.key
            using errcode = '55000',
                  hint = 'saga_guard.claim comes first; done follows only when it said "proceed"';
    end if;
    if done.applied and forward is not null then
        update saga_guard.effect e set undone_by = done.key where e.key = forward;
    end if;
end
$$;
comment on function saga_guard.done(text, json, boolean) is
    'Last call of a transaction whose claim said "proceed": keeps the answer. applied => false: it is a refusal. [participant]';

-- A claim without an answer would be a promise that nobody can keep: such a transaction does not
-- commit.
create or replace function saga_guard.must_be_done()
returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from saga_guard.effect e where e.key = new.key and e.state = 'claimed') then
        raise exception 'the key "%" was claimed, and no answer was kept', new.key
            using errcode = '55000', hint = 'call saga_guard.done before commit, or roll back';
    end if;
    return null;
end
$$;
comment on function saga_guard.must_be_done() is
    'Refuses the commit of a claim that was not answered. Internal.';
do $$
begin
    if not exists (select from pg_catalog.pg_trigger
                    where tgrelid = 'saga_guard.effect'::pg_catalog.regclass
                      and tgname = 'must_be_done') then
        create constraint trigger must_be_done after insert on saga_guard.effect
            deferrable initially deferred
            for each row when (new.state = 'claimed')
            execute function saga_guard.must_be_done();
    end if;
end
$$;
