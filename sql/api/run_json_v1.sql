-- One run with its steps, as `sagactl show -o json` prints it. Payloads are put in as they were
-- stored: digits, order of members and white space stay. Null if there is no such run. Of one whose
-- data was removed, how it ended and "removed_at" are all that is left.
--
-- plpgsql, because its plan is kept for the session: making it takes ten times as long as running
-- it. The shard and the settings find every row by its primary key, whatever was analysed.
create or replace function saga.run_json_v1(p_run_id text)
returns json
language plpgsql stable security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_shard smallint := saga.shard_of(p_run_id);
begin
    if exists (select from saga.tombstones t where t.shard = v_shard and t.run_id = p_run_id) then
        return (select json_build_object(
                           'run_id', t.run_id, 'workflow', t.workflow, 'version', t.version,
                           'tenant', t.tenant, 'state', t.state, 'paused', false,
                           'ended_at', saga.time_text(t.ended_at),
                           'removed_at', saga.time_text(t.removed_at),
                           'children', '[]'::json, 'signals', '[]'::json, 'steps', '[]'::json,
                           'findings', '[]'::json, 'residue', '[]'::json, 'next_verbs', null)
                  from saga.tombstones t
                 where t.shard = v_shard and t.run_id = p_run_id);
    end if;
    return (with places as materialized ( -- of the items of loops, by their keys
        select e.step_id, jsonb_object_agg(i.pair ->> 0, i.place) as of,
               jsonb_object_agg(i.pair ->> 0, i.pair ->> 2)
                   filter (where i.pair ->> 2 is not null) as said
          from saga.effect e
         cross join lateral json_array_elements(e.items) with ordinality i (pair, place)
         where e.shard = v_shard and e.run_id = p_run_id and e.item = '' and e.items is not null
         group by e.step_id),
      declared as materialized ( -- what is not undone, and why; where tasks are offered
        select jsonb_object_agg(x.step ->> 'id', json_build_object(
                   'stays', case json_typeof(x.step -> 'compensate')
                                when 'string' then x.step ->> 'compensate' end,
                   'queue', x.step ->> 'queue',
                   'compensation_queue', x.step ->> 'compensate_queue')) as of
          from saga.run_key k
          join saga.workflow w on w.hash = k.workflow_hash
         cross join lateral json_array_elements(w.steps) x (step)
         where k.shard = v_shard and k.run_id = p_run_id
           and (json_typeof(x.step -> 'compensate') = 'string'
                or x.step ->> 'queue' is not null or x.step ->> 'compensate_queue' is not null)),
      unknowns as materialized ( -- what is known of unknown outcomes; of two of a step, the undo's
        select jsonb_object_agg(
                   e.step_id || case when e.item = '' then '' else '.' || e.item end,
                   jsonb_build_object(
                       'direction', e.direction, 'since', saga.time_text(e.unknown_at),
                       'asked', e.findings, 'next_at', saga.time_text(e.next_at),
                       'until', saga.time_text(e.ask_until), 'says', e.found,
                       'found', f.detail, 'found_at', saga.time_text(f.at),
                       'source', f.source)
                   order by e.direction) as of
          from saga.effect e
          left join saga.finding f on f.shard = e.shard and f.run_id = e.run_id
                                  and f.step_id = e.step_id and f.item = e.item
                                  and f.direction = e.direction
                                  and f.generation = e.generation and f.number = e.findings
         where e.shard = v_shard and e.run_id = p_run_id and e.state = 'unknown'
           and not exists (
               select from saga.effect n
                where n.shard = e.shard and n.run_id = e.run_id and n.step_id = e.step_id
                  and n.item = e.item and n.direction = e.direction
                  and n.generation > e.generation))
      select json_build_object(
        'run_id', r.run_id, 'workflow', r.workflow, 'version', r.version, 'tenant', r.tenant,
        'state', r.state, 'paused', r.paused, 'cause', r.cause, 'park_reason', r.park_reason,
        'waiting_for', r.waiting_for,
        'waiting', (
            select json_build_object(
                       'step', o.step_id || case when o.item = '' then '' else '.' || o.item end,
                       'signal', case when o.waiting_for = 'signal' then o.signal end,
                       'queue', case when o.waiting_for = 'worker' then o.queue end,
                       'taken', o.waiting_for = 'worker' and o.step_state = 'claimed',
                       'child', case when o.waiting_for = 'child' then o.child end,
                       'service', case when o.waiting_for in ('limit', 'breaker')
                                       then o.service end)
              from saga.waiting_v1 o
             where o.shard = v_shard and o.run_id = p_run_id and o.step_id is not null),
        'lock', (
            select json_build_object('value', l.lock, 'position', l.position, 'since',
                                     saga.time_text(l.since), 'holder', l.holder)
              from saga.run x
              join saga.locks l on l.lock = x.lock and l.run_id = x.run_id
             where x.shard = v_shard and x.run_id = p_run_id),
        'behind', case when r.ended_at is null and r.state <> 'parked'
                       then saga.behind_v1(p_run_id) end,
        'input', r.input, 'output', r.output, 'error', r.error,
        'parked_error', d.error,
        'created_at', saga.time_text(r.created_at), 'ended_at', saga.time_text(r.ended_at),
        'deadline_at', saga.time_text(r.deadline_at), 'actor', r.actor,
        'parent', r.parent, 'start_at', saga.time_text(r.start_at), 'removed_at', null,
        'compensate_until', saga.time_text(r.compensate_until),
        'undoable_until', saga.time_text(r.undoable_until),
        'inputs', coalesce((
            select json_agg(json_build_object(
                       'number', i.number, 'direction', i.direction, 'input', i.input,
                       'at', saga.time_text(i.at), 'actor', i.actor) order by i.number)
              from saga.input i
             where i.shard = v_shard and i.run_id = p_run_id), '[]'),
        'children', coalesce((
            select json_agg(json_build_object(
                       'run_id', c.run_id, 'workflow', k.workflow, 'state', c.state,
                       'created_at', saga.time_text(c.created_at),
                       'ended_at', saga.time_text(c.ended_at))
                   order by c.created_at, c.run_id)
              from saga.run c
              join saga.run_key k on k.shard = c.shard and k.run_id = c.run_id
             where c.shard = v_shard and c.parent = p_run_id), '[]'),
        'signals', coalesce((
            select json_agg(json_build_object(
                       'name', g.name, 'data', g.data, 'at', saga.time_text(g.at),
                       'actor', g.actor) order by g.at, g.name)
              from saga.signal g
             where g.shard = v_shard and g.run_id = p_run_id), '[]'),
        'steps', coalesce((
            select json_agg(json_build_object(
                       'id', s.step_id, 'effect', s.effect, 'state', s.state,
                       'compensation_state', s.compensation_state, 'attempts', s.attempts,
                       'compensation_attempts', s.compensation_attempts, 'key', s.key,
                       'compensation_key', s.compensation_key, 'output', s.output,
                       'error', s.error, 'compensation_error', s.compensation_error,
                       'started_at', saga.time_text(s.started_at),
                       'ended_at', saga.time_text(s.ended_at),
                       'compensation_started_at', saga.time_text(s.compensation_started_at),
                       'compensation_ended_at', saga.time_text(s.compensation_ended_at),
                       'next_at', saga.time_text(s.next_at), 'items', s.items,
                       'item_text', p.said ->> s.item,
                       'stays', y.said ->> 'stays', 'queue', y.said ->> 'queue',
                       'compensation_queue', y.said ->> 'compensation_queue',
                       'unknown', u.of -> s.step_id,
                       'approval', (select w.state from saga.approval w
                                     where w.shard = v_shard and w.run_id = p_run_id
                                       and w.step_id = split_part(s.step_id, '.', 1)
                                       and w.item = s.item and w.direction = 'execute'
                                     order by w.generation desc
                                     limit 1),
                       'renewed', s.renewed, 'step_input', s.step_input,
                       'compensation_renewed', s.compensation_renewed,
                       'compensation_step_input', s.compensation_step_input)
                   order by s.position, (p.of ->> s.item)::integer nulls first)
              from saga.steps s
              left join places p on p.step_id = split_part(s.step_id, '.', 1)
             cross join lateral (
                   select d.of -> split_part(s.step_id, '.', 1) as said from declared d) y
             cross join unknowns u
             where s.shard = v_shard and s.run_id = p_run_id), '[]'),
        'findings', coalesce((
            select json_agg(json_build_object(
                       'step', n.step_id, 'direction', n.direction, 'number', n.number,
                       'at', saga.time_text(n.at), 'source', n.source, 'says', n.says,
                       'status', n.status, 'detail', n.detail, 'body', n.body, 'actor', n.actor)
                   order by n.at, n.number)
              from (select f.step_id || case when f.item = '' then '' else '.' || f.item end
                               as step_id,
                           f.direction, f.number, f.at, f.source, f.says, f.status, f.detail,
                           f.body, nullif(f.actor, '') as actor
                      from saga.finding f
                     where f.shard = v_shard and f.run_id = p_run_id
                     order by f.at desc, f.number desc
                     limit 200) n), '[]'), -- the newest
        'by_hand', coalesce((
            select json_agg(json_build_object('step', v.step, 'verb', v.what, 'actor', v.actor,
                                              'reason', v.detail, 'at', saga.time_text(v.at))
                   order by v.seq)
              from saga.event v
             where v.shard = v_shard and v.run_id = p_run_id and v.what in ('settle', 'skip')),
            '[]'),
        'residue', coalesce(r.residue, '[]'),
        'next_verbs', d.next_verbs)
      from saga.runs r
      left join saga.dead_letters d on d.shard = r.shard and d.run_id = r.run_id
     where r.shard = v_shard and r.run_id = p_run_id);
end
$$;
comment on function saga.run_json_v1(text) is
    'One run with its steps, as JSON. [engine, operator, reader]';
