-- One definition by name (the current one) or by hash, with its source and all its versions. Null
-- if there is none.
create or replace function saga.workflow_json_v1(p_name text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object(
        'workflow', w.name, 'version', w.version, 'hash', encode(w.hash, 'hex'),
        'current', w.current, 'description', nullif(w.description, ''), 'steps', w.steps,
        'applied_at', saga.time_text(w.applied_at), 'applied_by', w.applied_by,
        'source', w.source,
        'versions', (
            select json_agg(json_build_object(
                       'version', v.version, 'hash', encode(v.hash, 'hex'), 'current', v.current,
                       'applied_at', saga.time_text(v.applied_at)) order by v.applied_no desc)
              from saga.workflow v where v.name = w.name))
      from saga.workflow w
     where (w.name = p_name and w.current)
        or (p_name ~ '^[0-9a-f]{64}$' and encode(w.hash, 'hex') = p_name);
$$;
comment on function saga.workflow_json_v1(text) is
    'One definition as JSON. [engine, operator, reader]';
