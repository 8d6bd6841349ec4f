create or replace view saga_guard.keys as
select e.key,
       e.direction,
       e.state,
       e.compensates,
       e.undone_by,
       e.claimed_at,
       e.valid_until,
       case when e.state = 'barred' then 'refused: its undo came first'
            when e.undone_by is not null then 'refused: it was undone'
            when e.state = 'nothing' then 'nothing, again'
            when e.forgotten then 'expired'
            else 'replay' end as a_repeat_gets,
       e.answer
  from saga_guard.effect e;
comment on view saga_guard.keys is 'The keys that were used here, and what a repeat would get.';
comment on column saga_guard.keys.key is 'As the caller sent it (Idempotency-Key).';
comment on column saga_guard.keys.direction is 'execute or compensate.';
comment on column saga_guard.keys.state is
    'applied; refused: answered, nothing was done; nothing: there was nothing to undo; barred: undone before it came.';
comment on column saga_guard.keys.compensates is 'Of an undo: the key that it undoes.';
comment on column saga_guard.keys.undone_by is 'The key of the undo, once there was one.';
comment on column saga_guard.keys.claimed_at is 'When the key was first seen.';
comment on column saga_guard.keys.valid_until is 'The answer is kept at least until then.';
comment on column saga_guard.keys.a_repeat_gets is
    'What saga_guard.claim says of the same request once more.';
comment on column saga_guard.keys.answer is 'What was answered; null once it was forgotten.';

create or replace view saga_guard.help as
select *
  from (values
    (1, 'a request, in your transaction',
     $$select * from saga_guard.claim('KEY', saga_guard.hash('{"amount": 10.10}'));$$),
    (2, 'it said "proceed": your rows, then the answer, then commit',
     $$select saga_guard.done('KEY', '{"id": 7}');$$),
    (3, 'an undo, which names the key that it undoes',
     $$select * from saga_guard.claim('UNDO KEY', saga_guard.hash('{}'), 'compensate', 'KEY');$$),
    (4, 'which keys were used, and what a repeat gets', $$select * from saga_guard.keys;$$),
    (5, 'how long answers are kept; callers declare the same ttl',
     $$select saga_guard.promise_ttl('7 days');$$),
    (6, 'drop older answers, daily', $$select saga_guard.forget();$$),
    (7, 'let the role of your service use it', $$select saga_guard.allow('ROLE');$$),
    (8, 'what each function does', $$\df+ saga_guard.*$$)
  ) as line (step, what, try_this);
comment on view saga_guard.help is 'Where to start.';
comment on column saga_guard.help.step is 'In this order.';
comment on column saga_guard.help.what is 'What for.';
comment on column saga_guard.help.try_this is 'The statement.';
