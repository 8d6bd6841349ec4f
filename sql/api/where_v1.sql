-- Reads what a person gave for --where. Says what is wrong with it in words.
create or replace function saga.where_v1(p_where text)
returns jsonpath
language plpgsql immutable
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    return p_where::jsonpath;
exception when syntax_error or data_exception or program_limit_exceeded
               or feature_not_supported then
    raise exception 'where: "%" is no SQL/JSON path (%); one is $.input.amount > 100',
                    left(p_where, 200), sqlerrm
          using errcode = 'invalid_parameter_value';
end
$$;
comment on function saga.where_v1(text) is
    'A path that was given as text. [engine, operator, reader]';
