-- A parked run goes on from the exact point where it stopped, in the same direction. Of an unknown
-- outcome only where a repeat is safe; else it says "settle first".
create or replace function saga.retry(run_id text, reason text, input jsonb default null,
                                      step_input jsonb default null)
returns text
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select saga.request_v1('retry', run_id, reason, json_build_object(
        'reason', reason, 'input', input, 'step_input', step_input));
$$;
comment on function saga.retry(text, text, jsonb, jsonb) is
    'Lets a parked run go on. Returns a request id. [operator]';
