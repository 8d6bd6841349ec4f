-- A hash of a JSON body that does not change with the order of members, white space, or the way in
-- which a number is written (10.1, 10.10, 101e-1). For participants that get no better one.
create or replace function saga_guard.canonical(body jsonb)
returns jsonb
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
begin
    case jsonb_typeof(body)
        when 'object' then
            return (select coalesce(jsonb_object_agg(m.key, saga_guard.canonical(m.value)), '{}')
                      from jsonb_each(body) m);
        when 'array' then
            return (select coalesce(jsonb_agg(saga_guard.canonical(i.value) order by i.ordinality),
                                    '[]')
                      from jsonb_array_elements(body) with ordinality i);
        when 'number' then
            return to_jsonb(trim_scale((body #>> '{}')::numeric));
        else
            return body;
    end case;
end
$$;
comment on function saga_guard.canonical(jsonb) is
    'The same JSON with every number in its shortest form. Internal.';

create or replace function saga_guard.hash(body jsonb)
returns text
language sql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $$
    select encode(sha256(convert_to(coalesce(saga_guard.canonical(body)::text, ''), 'UTF8')), 'hex');
$$;
comment on function saga_guard.hash(jsonb) is
    'A request hash for saga_guard.claim, of a JSON body: order of members and spelling of numbers do not count. Put method and path into the JSON too if one key could meet several.';
