-- The run id that a workflow's template gives for an input, from the literals and paths that were
-- stored when it was applied. Null if there is no template; raises if SQL cannot render it.
create or replace function saga.run_id_render_v1(p_parts json, p_input jsonb)
returns text
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $$
declare
    v_part json;
    v_path text[];
    v_value jsonb;
    v_id text := '';
begin
    if p_parts is null then
        return null;
    end if;
    if json_typeof(p_parts) <> 'array' then
        raise exception 'the run id of this workflow is not just text and input fields'
              using errcode = 'feature_not_supported',
                    hint = 'give run_id, or start the run through the daemon';
    end if;
    for v_part in select x from json_array_elements(p_parts) x loop
        if v_part -> 'lit' is not null then
            v_id := v_id || (v_part ->> 'lit');
            continue;
        end if;
        select array_agg(p order by n) into v_path
          from json_array_elements_text(v_part -> 'path') with ordinality as x (p, n);
        v_value := p_input #> v_path;
        if v_value is null or jsonb_typeof(v_value) not in ('string', 'number', 'boolean') then
            raise exception 'input.% is needed for the run id: a text, number or boolean',
                            array_to_string(v_path, '.')
                  using errcode = 'invalid_parameter_value';
        end if;
        v_id := v_id || (v_value #>> '{}');
    end loop;
    return v_id;
end
$$;
comment on function saga.run_id_render_v1(json, jsonb) is 'Renders a run id from stored parts.';
