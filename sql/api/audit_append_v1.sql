-- Appends acts to their chains, in the caller's transaction. The row of saga.audit_head is held
-- from here to the commit; chains are taken in their order, so that nobody deadlocks.
create or replace function saga.audit_append_v1(p_acts saga.audit_act[])
returns void
language plpgsql
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_act saga.audit_act;
    v_head saga.audit_head;
begin
    for v_act in
        select a.chain, a.no, a.at, a.verb, a.actor, a.run_id, a.step, a.reason, a.outcome, a.hash
          from unnest(p_acts) with ordinality
               as a (chain, no, at, verb, actor, run_id, step, reason, outcome, hash, place)
         order by a.chain, a.place
    loop
        if v_head.chain is distinct from v_act.chain then
            select * into strict v_head from saga.audit_head h where h.chain = v_act.chain
               for update;
        end if;
        v_act.no := v_head.no + 1;
        v_act.hash := saga.audit_hash_v1(v_head.hash, v_act);
        v_head.no := v_act.no;
        v_head.hash := v_act.hash;
        insert into saga.audit_act select v_act.*;
        update saga.audit_head h set no = v_head.no, hash = v_head.hash
         where h.chain = v_head.chain;
    end loop;
end
$$;
comment on function saga.audit_append_v1(saga.audit_act[]) is
    'Appends acts of people to their chains.';
