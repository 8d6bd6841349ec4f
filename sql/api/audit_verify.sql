-- Follows the chains from their beginning: one row for each that is not empty, with its head and
-- the first thing that is wrong with it. A chain that was rewritten from some row to its end, head
-- included, agrees with itself: heads that were noted elsewhere (in a mail, on paper) tell. They are
-- given as [{"chain": 7, "no": 12, "hash": "..."}].
create or replace function saga.audit_verify(noted jsonb default null)
returns table (chain smallint, acts bigint, head text, problem text)
language plpgsql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
#variable_conflict use_column
declare
    v_head saga.audit_head;
    v_act saga.audit_act;
    v_hash bytea;
    v_zero constant bytea := decode(repeat('00', 32), 'hex');
    v_note jsonb;
begin
    for i in 0 .. 64 loop
        select * into v_head from saga.audit_head h where h.chain = i;
        chain := i;
        acts := 0;
        problem := null;
        v_hash := v_zero;
        for v_act in select * from saga.audit_act a where a.chain = i order by a.no loop
            if v_act.no <> acts + 1 then
                problem := format('row %s is missing', acts + 1);
            elsif v_act.hash <> saga.audit_hash_v1(v_hash, v_act) then
                problem := format('row %s (%s of run "%s" by %s at %s) was changed, or a row '
                                  'before it was exchanged', v_act.no, v_act.verb, v_act.run_id,
                                  v_act.actor, saga.time_text(v_act.at));
            end if;
            exit when problem is not null;
            for v_note in select n from jsonb_array_elements(noted) n
                           where (n ->> 'chain')::integer = i
                             and (n ->> 'no')::bigint = v_act.no
                             and n ->> 'hash' <> encode(v_act.hash, 'hex') loop
                problem := format('row %s or one before it is not what was noted: the chain was '
                                  'written anew', v_act.no);
            end loop;
            exit when problem is not null;
            acts := v_act.no;
            v_hash := v_act.hash;
        end loop;
        if problem is null and v_head.chain is null then
            problem := 'its head is missing';
        elsif problem is null and (v_head.no <> acts or v_head.hash <> v_hash) then
            problem := case when v_head.no > acts
                            then format('rows %s to %s are missing at its end', acts + 1, v_head.no)
                            else format('its head says row %s, its rows end with %s', v_head.no,
                                        acts) end;
        elsif problem is null and exists (select from jsonb_array_elements(noted) n
                                           where (n ->> 'chain')::integer = i
                                             and (n ->> 'no')::bigint > acts) then
            problem := format('it ends with row %s, but a later one was noted', acts);
        end if;
        head := encode(v_hash, 'hex');
        if acts > 0 or problem is not null then
            return next;
        end if;
    end loop;
end
$$;
comment on function saga.audit_verify(jsonb) is
    'Checks the chains of saga.audit: one row each, with the first problem. Note the heads elsewhere '
    'and give them the next time. [engine, operator]';
