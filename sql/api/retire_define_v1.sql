-- What retention has to know of definitions, and only their sources tell. Without arguments: one
-- definition of which it is not known, as {"hash": hex, "source": text}, null if there is none. With
-- them: takes it in first (p_retain null: the workflow says nothing).
create or replace function saga.retire_define_v1(p_hash bytea, p_retain interval, p_after interval)
returns json
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    if p_hash is not null then
        update saga.workflow w
           set retain = p_retain, retain_after = p_after, retain_known = true
         where w.hash = p_hash;
    end if;
    return (select json_build_object('hash', encode(w.hash, 'hex'), 'source', w.source)
              from saga.workflow w
             where not w.retain_known
             order by w.applied_no
             limit 1);
end
$$;
comment on function saga.retire_define_v1(bytea, interval, interval) is
    'Tells what retention does not know of definitions, and takes it in. [engine]';
