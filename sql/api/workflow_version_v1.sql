-- The definitions that a text names: a label, or a hash or its first digits (6 at least). A list of
-- {source, current}; null if there is none. More than a few cannot be told apart by it anyway.
create or replace function saga.workflow_version_v1(p_text text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select json_agg(json_build_object('source', v.source, 'current', v.current))
      from (select w.source, w.current
              from saga.workflow w
             where (w.version_is_label and w.version = p_text)
                or (p_text ~ '^[0-9a-f]{6,64}$' and starts_with(encode(w.hash, 'hex'), p_text))
             limit 3) v;
$$;
comment on function saga.workflow_version_v1(text) is
    'The definitions that a label or a hash names. [engine]';
