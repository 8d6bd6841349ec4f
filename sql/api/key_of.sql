-- The key of an effect as participants get it: run:step[.item]:direction, from the second
-- generation on with @generation. Injective: run ids and step ids hold no ":", and an item no "@".
create or replace function saga.key_of(run_id text, step_id text, item text,
                                       direction saga.direction, generation integer)
returns text
language sql immutable parallel safe
return run_id || ':' || step_id || case when item = '' then '' else '.' || item end || ':' ||
       direction::text || case when generation > 1 then '@' || generation else '' end;
comment on function saga.key_of(text, text, text, saga.direction, integer) is
    'The key of an effect: run:step:direction. [engine, operator, reader]';
