-- Treats a step as done by hand; it is listed in the residue.
create or replace function saga.skip(run_id text, step text, reason text, output jsonb default null)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('skip', run_id, reason, json_build_object('reason', reason, 'step', step, 'output', output));
$$;
comment on function saga.skip(text, text, text, jsonb) is
    'Treats a step as done by hand. Returns a request id. [operator]';
