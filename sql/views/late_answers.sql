create or replace view saga.late_answers as
select i.at, i.body ->> 'key' as key, (i.body ->> 'applied')::boolean as applied,
       i.body -> 'output' as output, i.body ->> 'reason' as text, i.actor, i.run_id,
       k.workflow, k.outcome as run_ended, k.closed_at as run_ended_at, i.id
  from saga.shard s
  join saga.inbox i on i.shard = s.shard and i.kind = 'answer' and i.outcome = 'conflict'
  join saga.run_key k on k.shard = i.shard and k.run_id = i.run_id and k.outcome is not null;
comment on view saga.late_answers is
    'What participants said of runs whose data was removed: nothing follows from it by itself; a '
    'person should look whether something has to be undone by hand. Kept for ever.';
comment on column saga.late_answers.at is 'when it came';
comment on column saga.late_answers.key is 'the idempotency key that it is about';
comment on column saga.late_answers.applied is 'true: it was applied; false: refused for good';
comment on column saga.late_answers.output is 'what it gave; null: nothing';
comment on column saga.late_answers.text is 'its own words';
comment on column saga.late_answers.actor is 'who brought it';
comment on column saga.late_answers.run_id is 'the run that the key was of';
comment on column saga.late_answers.workflow is 'name of its workflow';
comment on column saga.late_answers.run_ended is 'how that run had ended';
comment on column saga.late_answers.run_ended_at is 'when';
comment on column saga.late_answers.id is 'the request';
