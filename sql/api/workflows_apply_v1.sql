-- Registers definitions that belong together, all of them or none: a list of {hash (hex), name,
-- version, is_label, description, source, steps, run_id_parts}. Answers
--   ["applied", ...]   what workflow_apply_v2 says of each, in their order
--   conflict NAME      the version of this one is a label that stands for other content: nothing
--                      was changed
create or replace function saga.workflows_apply_v1(p_list json, p_actor text)
returns text
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_item json;
    v_status text;
    v_answers text[] := '{}';
begin
    for v_item in select e.value from json_array_elements(p_list) e loop
        v_status := saga.workflow_apply_v2(
            decode(v_item ->> 'hash', 'hex'), v_item ->> 'name', v_item ->> 'version',
            (v_item ->> 'is_label')::boolean, v_item ->> 'description', v_item ->> 'source',
            v_item -> 'steps', v_item -> 'run_id_parts', p_actor,
            (v_item ->> 'compensatable_for')::interval);
        if v_status = 'conflict' then
            raise exception using errcode = 'SG409', message = v_item ->> 'name';
        end if;
        v_answers := v_answers || v_status;
    end loop;
    return array_to_json(v_answers);
exception
    when sqlstate 'SG409' then
        return 'conflict ' || sqlerrm;
end
$$;
comment on function saga.workflows_apply_v1(json, text) is
    'Registers definitions together. [engine]';
