-- The current definitions: {"workflows": [...]}.
create or replace function saga.workflows_json_v1()
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object('workflows', coalesce(json_agg(json_build_object(
               'workflow', w.workflow, 'version', w.version, 'hash', w.hash,
               'description', w.description, 'steps', w.steps,
               'applied_at', saga.time_text(w.applied_at), 'applied_by', w.applied_by)
               order by w.workflow), '[]'))
      from saga.workflows w
     where w.current;
$$;
comment on function saga.workflows_json_v1() is
    'The current definitions as JSON. [engine, operator, reader]';
