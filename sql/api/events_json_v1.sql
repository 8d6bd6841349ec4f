-- The history of a run after a number: {"events": [{seq, at, step_id, item_text, what, detail}], "ended"}.
-- Null if there is no such run.
create or replace function saga.events_json_v1(p_run_id text, p_after bigint)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    with said as ( -- what items are called whose names are hashes; made only where it is asked for
        select jsonb_object_agg(l.step_id || '.' || (p.pair ->> 0), p.pair ->> 2) as of
          from saga.effect l
         cross join lateral json_array_elements(l.items) p (pair)
         where l.shard = saga.shard_of(p_run_id) and l.run_id = p_run_id and l.item = ''
           and l.items is not null and p.pair ->> 2 is not null)
    select json_build_object(
        'events', coalesce((
            select json_agg(json_build_object(
                       'seq', t.seq, 'at', saga.time_text(t.at), 'step_id', t.step_id,
                       'item_text', case when t.step_id ~ '[.][0-9a-f]{32}$'
                                         then (select s.of from said s) ->> t.step_id end,
                       'what', t.what, 'detail', t.detail) order by t.seq)
              from saga.timeline t
             where t.run_id = p_run_id and t.seq > p_after), '[]'),
        'ended', r.ended_at is not null)
      from saga.run r
     where r.shard = saga.shard_of(p_run_id) and r.run_id = p_run_id;
$$;
comment on function saga.events_json_v1(text, bigint) is
    'The history of a run as JSON. [engine, operator, reader]';
