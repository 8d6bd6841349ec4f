-- A participant says by itself what became of a key (a callback): it was applied, with this output,
-- or it was refused for good. An answer that comes late is evidence all the same, and a success of
-- what counted as not applied is undone like everything else. The key as it stood in
-- Idempotency-Key, in its plain form.
create or replace function saga.answer(key text, applied boolean, output jsonb default null,
                                       text text default null)
returns text
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    if key is null or key !~ '^[^:]+:[^:]+:(execute|compensate)(@[0-9]+)?$'
       or applied is null then
        raise exception 'answer needs a key RUN:STEP:execute or RUN:STEP:compensate, and applied'
              using errcode = 'invalid_parameter_value';
    end if;
    return saga.request_v1('answer', split_part(key, ':', 1), text, json_build_object(
        'key', key, 'applied', applied, 'output', output, 'reason', text));
end
$$;
comment on function saga.answer(text, boolean, jsonb, text) is
    'A participant''s word on a key: a callback, or an answer that came late. Returns a request id. '
    '[submit, operator]';
