-- Data for a step that waits for it; kept if it comes early; the first one wins.
create or replace function saga.signal(run_id text, name text, data jsonb default null)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('signal', run_id, null, json_build_object('name', name, 'data', data));
$$;
comment on function saga.signal(text, text, jsonb) is
    'Gives a waiting step its data. Returns a request id. [operator]';
