-- A payload that jsonb cannot hold (a number of a million digits) counts as null.
create or replace function saga.jsonb_or_null_v1(p_json json)
returns jsonb
language plpgsql immutable
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    return p_json::jsonb;
exception when data_exception or program_limit_exceeded then
    return null;
end
$$;
comment on function saga.jsonb_or_null_v1(json) is
    'A payload as jsonb, null if it cannot be that. [engine, operator, reader]';
