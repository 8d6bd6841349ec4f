create or replace view saga.steps as
select r.run_id,
       d.id || case when coalesce(x.item, '') = '' then '' else '.' || x.item end as step_id,
       d.effect, coalesce(x.state, 'pending'::saga.step_state) as state,
       c.state as compensation_state,
       coalesce(x.attempts, 0) as attempts, coalesce(c.attempts, 0) as compensation_attempts,
       case when x.claim_no > 0
            then saga.key_of(r.run_id, d.id, x.item, 'execute', x.generation) end as key,
       case when c.claim_no > 0
            then saga.key_of(r.run_id, d.id, c.item, 'compensate', c.generation)
            end as compensation_key,
       x.claimed_at as started_at, x.ended_at,
       c.claimed_at as compensation_started_at, c.ended_at as compensation_ended_at,
       coalesce(case when c.state in ('retrying', 'waiting') then c.next_at end,
                case when x.state in ('retrying', 'waiting') then x.next_at end) as next_at,
       case when x.items is not null and x.state = 'applied'
            then (select coalesce(pg_catalog.json_agg(i.output order by p.place), '[]')
                    from pg_catalog.json_array_elements(x.items) with ordinality p (pair, place)
                    left join lateral (
                         select case when e.state = 'applied' then e.output end as output
                           from saga.effect e
                          where e.shard = x.shard and e.run_id = x.run_id
                            and e.step_id = x.step_id and e.item = p.pair ->> 0
                            and e.direction = 'execute'
                          order by e.generation desc
                          limit 1) i on true)
            else x.output end as output,
       x.error, c.error as compensation_error, d.position,
       coalesce(x.item, '') as item, r.shard, pg_catalog.json_array_length(x.items) as items,
       coalesce(x.output_invalid, false) as output_invalid,
       x.renewed, x.step_input, c.renewed as compensation_renewed,
       c.step_input as compensation_step_input,
       case when x.item ~ '^[0-9a-f]{32}$' -- a hash
            then (select p.pair ->> 2
                    from saga.effect l
                   cross join lateral pg_catalog.json_array_elements(l.items) p (pair)
                   where l.shard = x.shard and l.run_id = x.run_id and l.step_id = x.step_id
                     and l.item = '' and l.direction = 'execute' and l.items is not null
                     and pg_catalog.pg_column_size(l.items) <= 16384 and p.pair ->> 0 = x.item
                   limit 1) end as item_text
  from saga.shard s
  join saga.run r on r.shard = s.shard
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
  join saga.workflow w on w.hash = k.workflow_hash
 cross join lateral (
      select e.step ->> 'id' as id, (e.step ->> 'effect')::saga.effect_tier as effect,
             e.position::integer as position
        from pg_catalog.json_array_elements(w.steps) with ordinality as e (step, position)) d
  left join lateral (
      select distinct on (e.item) e.*
        from saga.effect e
       where e.shard = r.shard and e.run_id = r.run_id and e.step_id = d.id
         and e.direction = 'execute'
       order by e.item, e.generation desc) x on true
  left join lateral (
      select e.*
        from saga.effect e
       where e.shard = r.shard and e.run_id = r.run_id and e.step_id = d.id
         and e.item = coalesce(x.item, '') and e.direction = 'compensate'
       order by e.generation desc
       limit 1) c on true;
comment on view saga.steps is
    'Step instances of runs, steps not begun too. order by position for file order. A for_each is a '
    'row (item '''') and one more for each of its items that began.';
comment on column saga.steps.run_id is 'the run';
comment on column saga.steps.step_id is 'the step; an instance of a for_each is STEP.ITEM';
comment on column saga.steps.effect is
    'its tier: pure, idempotent, compensable, irreversible (never repeated on a guess)';
comment on column saga.steps.state is
    'pending, claimed (sent or about to be), retrying, waiting, unknown, applied, refused, '
    'skipped, withdrawn';
comment on column saga.steps.compensation_state is
    'the same for what undoes it; null: its compensation has not been begun';
comment on column saga.steps.attempts is 'how often the action was sent';
comment on column saga.steps.compensation_attempts is 'how often the compensation was sent';
comment on column saga.steps.key is
    'the idempotency key that the participant got with each attempt; null: never claimed';
comment on column saga.steps.compensation_key is 'the key of the compensation; null: never claimed';
comment on column saga.steps.started_at is 'when its key was claimed, before the first send';
comment on column saga.steps.ended_at is 'when its outcome was known';
comment on column saga.steps.compensation_started_at is 'when its compensation was claimed';
comment on column saga.steps.compensation_ended_at is 'when the outcome of that was known';
comment on column saga.steps.next_at is 'when it is sent again, or its timer ends; null: neither';
comment on column saga.steps.output is
    'what the participant answered, or a person gave; of a for_each, once it is applied, the list of '
    'its items'' outputs in their order, null where one was not applied';
comment on column saga.steps.error is 'its last error: {code, status, message, body}';
comment on column saga.steps.compensation_error is 'the last error of its compensation';
comment on column saga.steps.position is 'place of the step in the file, from 1';
comment on column saga.steps.item is 'instance of a for_each; empty: none';
comment on column saga.steps.shard is 'the shard of the run';
comment on column saga.steps.items is
    'of a for_each, in its own row: how many items there are; null: it has not begun, or is none';
comment on column saga.steps.output_invalid is
    'the answer could not be kept as it came, or does not fit output_schema; the step stays applied';
comment on column saga.steps.renewed is
    'why it has another key than the first (...@2): who retried what had been refused, and why';
comment on column saga.steps.step_input is
    'what a person gave to be sent instead of what the workflow says; null: nothing';
comment on column saga.steps.compensation_renewed is 'renewed, of the compensation';
comment on column saga.steps.compensation_step_input is 'step_input, of the compensation';
comment on column saga.steps.item_text is
    'what the item is called, where its name in keys is a hash of that; null: it is none, or its loop '
    'is large (sagactl show tells it)';
