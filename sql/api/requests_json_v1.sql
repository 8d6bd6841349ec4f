-- One request as an object; null if there is none.
create or replace function saga.requests_json_v1(p_id text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_build_object(
        'id', q.id, 'kind', q.kind, 'run_id', q.run_id, 'actor', q.actor,
        'at', saga.time_text(q.at), 'outcome', q.outcome, 'code', q.code, 'answer', q.answer,
        'settled_at', saga.time_text(q.settled_at))
      from saga.requests q
     where q.id = p_id;
$$;
comment on function saga.requests_json_v1(text) is
    'One request as JSON. [engine, operator, reader]';
