-- Effects as daemons below schema version 2 give them: no loops, so no items, and nothing found out
-- about them. null: null.
create or replace function saga.effects_from_v1(p_effects saga.effect_v1[])
returns saga.effect_v2[]
language sql immutable
as $$
    select case when p_effects is not null then
               array(select row(x.*, null::json, null::timestamptz, null::timestamptz, 0,
                                null::text, null::json, null::json, null::text, null::text,
                                null::text)::saga.effect_v2
                       from pg_catalog.unnest(p_effects) x) end;
$$;
comment on function saga.effects_from_v1(saga.effect_v1[]) is 'Effects of older daemons.';
