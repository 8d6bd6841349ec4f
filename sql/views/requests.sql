create or replace view saga.requests as
select i.id, i.kind, i.run_id, i.actor, i.at, i.outcome, i.answer, i.settled_at, i.body, i.code
  from saga.shard s
  join saga.inbox i on i.shard = s.shard;
comment on view saga.requests is
    'Starts and verbs that came by SQL or at another daemon, with what became of them.';
comment on column saga.requests.id is 'the id that the call returned';
comment on column saga.requests.kind is 'start, or the verb';
comment on column saga.requests.run_id is 'the run that it is about';
comment on column saga.requests.actor is 'who asked for it';
comment on column saga.requests.at is 'when';
comment on column saga.requests.outcome is
    'done, refused or conflict; null: the owner of the run has not looked at it yet';
comment on column saga.requests.answer is 'why, in a line';
comment on column saga.requests.settled_at is 'when it was decided';
comment on column saga.requests.body is 'what was asked for';
comment on column saga.requests.code is
    'why not, for programs: not_found, invalid, conflict, ...; null: done or not looked at yet';
