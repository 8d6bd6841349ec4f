-- A verb is offered only where the engine would obey it: no retry while something is unknown that
-- must not be repeated, nor where the participant holds the key for something else; no settle where
-- nothing is unknown; no compensate of what goes back already.
create or replace view saga.dead_letters as
select r.run_id, k.workflow, w.version, nullif(k.tenant, '') as tenant, r.park_reason as reason,
       p.at as parked_at, p.step as step_id, r.direction, r.cause,
       case when x.stopped then x.error else coalesce(r.error, x.error) end as error,
       r.input, coalesce(r.residue, '[]') as residue,
       array(select v.verb
               from pg_catalog.unnest(case r.park_reason::text
                        when 'outcome_unknown' then array['settle', 'retry', 'skip', 'abandon']
                        when 'compensation_failed'
                        then array['retry', 'settle', 'skip', 'abandon']
                        when 'pivot_passed' then array['retry', 'skip', 'abandon']
                        when 'key_conflict' then array['settle', 'skip', 'compensate', 'abandon']
                        when 'step_failed' then array['retry', 'skip', 'compensate', 'abandon']
                        when 'crash_loop' then array['retry', 'compensate', 'abandon']
                        when 'quarantine' then array['retry', 'abandon']
                        when 'repair' then array['retry', 'skip', 'compensate', 'abandon']
                        when 'compensation_budget' then array['retry', 'skip', 'abandon']
                        when 'late_success' then array['compensate', 'abandon']
                        when 'approval_expired'
                        then array['retry', 'skip', 'compensate', 'abandon'] end)
                    with ordinality v (verb, place)
              where (v.verb <> 'retry' or b.blocked is null)
                and (v.verb <> 'settle' or exists (
                     select from saga.effect e
                      where e.shard = r.shard and e.run_id = r.run_id and e.state = 'unknown'))
                and (v.verb <> 'compensate' or r.direction = 'execute'
                     or r.park_reason::text = 'late_success')
              order by v.place) as next_verbs,
       r.created_at,
       (select pg_catalog.json_agg(pg_catalog.json_build_object(
                   'step', e.step_id || case when e.item = '' then '' else '.' || e.item end,
                   'direction', e.direction, 'state', e.state,
                   'key', saga.key_of(e.run_id, e.step_id, e.item, e.direction, e.generation),
                   'attempts', e.attempts, 'maybe_applied', e.maybe_applied,
                   'generation', e.generation, 'by_hand', e.by_hand,
                   'first_sent', saga.time_text(case when e.attempts > 0
                                                     then coalesce(w.decided_at, e.claimed_at) end),
                   'ended_at', saga.time_text(e.ended_at),
                   'request_hash', pg_catalog.encode(e.request_hash, 'hex'),
                   'key_valid_until', saga.time_text(e.key_valid_until),
                   'renewed', e.renewed, 'step_input', e.step_input,
                   'unknown_since', saga.time_text(case when e.maybe_applied
                                                        then e.unknown_at end),
                   'output', e.output, 'error', e.error)
                   order by e.claim_no, e.direction, e.generation)
          from saga.effect e
          left join saga.approval w on w.shard = e.shard and w.run_id = e.run_id
                                   and w.step_id = e.step_id and w.item = e.item
                                   and w.direction = e.direction and w.generation = e.generation
         where e.shard = r.shard and e.run_id = r.run_id and e.items is null) as effects,
       (select pg_catalog.json_agg(pg_catalog.json_build_object(
                   'step', a.step_id || case when a.item = '' then '' else '.' || a.item end,
                   'direction', a.direction, 'number', a.number, 'outcome', a.outcome,
                   'status', a.status, 'sent_at', saga.time_text(a.sent_at),
                   'ended_at', saga.time_text(a.ended_at), 'daemon', a.daemon, 'error', a.error)
                   order by coalesce(a.sent_at, a.ended_at), a.number)
          from saga.attempt a
         where a.shard = r.shard and a.run_id = r.run_id) as attempts,
       r.shard,
       (select pg_catalog.json_agg(pg_catalog.json_build_object(
                   'step', f.step_id || case when f.item = '' then '' else '.' || f.item end,
                   'direction', f.direction, 'number', f.number, 'at', saga.time_text(f.at),
                   'source', f.source, 'says', f.says, 'status', f.status, 'detail', f.detail,
                   'body', f.body, 'actor', nullif(f.actor, ''))
                   order by f.at, f.number)
          from saga.finding f
         where f.shard = r.shard and f.run_id = r.run_id) as findings
  from saga.shard s
  join saga.run r on r.shard = s.shard
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
  left join saga.workflow w on w.hash = k.workflow_hash
  left join lateral (
      select v.at, nullif(v.step, '') as step
        from saga.event v
       where v.shard = r.shard and v.run_id = r.run_id and v.what = 'parked'
       order by v.seq desc
       limit 1) p on true
  -- What made it stop: a run that has not turned back has no error of its own, and that of one which
  -- did tells why it turned back, not why it is here.
  left join lateral (
      select pg_catalog.json_build_object(
                 'step', y.step, 'code', e.error -> 'code', 'status', e.error -> 'status',
                 'message', e.error -> 'message', 'body', e.error -> 'body') as error,
             y.step = p.step as stopped
        from saga.effect e
       cross join lateral (
             select e.step_id || case when e.item = '' then '' else '.' || e.item end as step) y
       where e.shard = r.shard and e.run_id = r.run_id and e.error is not null
         and e.state in ('refused', 'unknown')
       order by (y.step = p.step) desc nulls last, (e.direction = r.direction) desc,
                coalesce(e.ended_at, e.unknown_at) desc nulls last
       limit 1) x on true
  left join lateral (
      select true as blocked
        from saga.effect e
       cross join lateral (
            select case e.direction when 'execute' then x.step ->> 'kind'
                                    else x.step ->> 'compensate_kind' end as kind,
                   case e.direction when 'execute' then x.step -> 'again'
                                    else x.step -> 'compensate_again' end as again,
                   x.step ->> 'on_failure' as on_failure
              from pg_catalog.json_array_elements(w.steps) x (step)
             where x.step ->> 'id' = e.step_id) d
       where e.shard = r.shard and e.run_id = r.run_id and e.items is null
         and (e.outcome = 'conflict'
              or (e.state = 'unknown'
                  and not coalesce((d.again ->> case
                          when e.key_valid_until is null then 'no_key'
                          when e.key_valid_until >= pg_catalog.now() then 'key'
                          else 'key_over' end)::boolean, d.kind <> 'child')))
         and (e.direction = 'compensate' or d.on_failure <> 'continue')
         and not exists (
             select from saga.effect n
              where n.shard = e.shard and n.run_id = e.run_id and n.step_id = e.step_id
                and n.item = e.item
                and (n.direction = e.direction and n.generation > e.generation
                     or n.direction = 'compensate' and e.direction = 'execute'))
       limit 1) b on true
 where r.ended_at is null and r.state = 'parked';
comment on view saga.dead_letters is
    'Parked runs: what each did, where it stopped, and what may be done about it.';
comment on column saga.dead_letters.run_id is 'the run';
comment on column saga.dead_letters.workflow is 'name of its workflow';
comment on column saga.dead_letters.version is 'version of the definition under which it runs';
comment on column saga.dead_letters.tenant is 'whom it belongs to; null: nobody in particular';
comment on column saga.dead_letters.reason is
    'outcome_unknown, compensation_failed, pivot_passed, key_conflict, step_failed, crash_loop, '
    'quarantine, repair (retry it with a corrected input), compensation_budget, late_success, approval_expired (retry it to ask again), suspect (the database was restored: settle, or vouch with retry that it was not sent)';
comment on column saga.dead_letters.parked_at is 'when it was parked';
comment on column saga.dead_letters.step_id is 'the step where it stopped; null: no single one';
comment on column saga.dead_letters.direction is 'execute: it stopped on the way forward';
comment on column saga.dead_letters.cause is 'why it had turned back before; null: it had not';
comment on column saga.dead_letters.error is
    'that of the step where it stopped, else the first failure of the run (saga.runs.error)';
comment on column saga.dead_letters.input is 'the input of the run';
comment on column saga.dead_letters.residue is 'what is applied or unknown and not undone';
comment on column saga.dead_letters.next_verbs is
    'safe ways out, best first: sagactl VERB RUN ... or select saga.VERB(run_id, ..., reason)';
comment on column saga.dead_letters.created_at is 'when the run was submitted';
comment on column saga.dead_letters.effects is
    'every action and compensation with its key, state, hash and answer: the checkpoint';
comment on column saga.dead_letters.attempts is 'attempts that did not go right';
comment on column saga.dead_letters.shard is 'the shard of the run';
comment on column saga.dead_letters.findings is
    'what was learned about unknown outcomes: by asking, from late answers, from people';
