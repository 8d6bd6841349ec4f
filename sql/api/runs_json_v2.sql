-- As daemons ask that do not know of tenants and paused runs here.
create or replace function saga.runs_json_v2(p_state text, p_workflow text, p_since interval,
                                             p_limit integer, p_cursor text, p_where text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.runs_json_v3(p_state, p_workflow, p_since, p_limit, p_cursor, p_where, null);
$$;
comment on function saga.runs_json_v2(text, text, interval, integer, text, text) is
    'A page of runs as JSON. [engine, operator, reader]';
