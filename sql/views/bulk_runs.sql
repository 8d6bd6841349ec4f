create or replace view saga.bulk_runs as
select u.bulk_id, u.number, u.run_id,
       case when u.outcome in ('done', 'lost') then u.outcome
            when u.outcome is not null then 'refused'
            when u.number <= b.released then 'asked'
            when b.stopped is null then 'waits' else 'left' end as outcome, u.answer
  from saga.bulk_request b
  join saga.bulk_run u on u.bulk_id = b.bulk_id;
comment on view saga.bulk_runs is 'The runs of verbs in bulk, with what became of each.';
comment on column saga.bulk_runs.bulk_id is 'the verb in bulk: saga.bulk';
comment on column saga.bulk_runs.number is 'its turn, from 1';
comment on column saga.bulk_runs.run_id is 'the run';
comment on column saga.bulk_runs.outcome is
    'waits; asked (its owner has not decided yet); done, refused; lost (the run was gone); left (it was stopped)';
comment on column saga.bulk_runs.answer is 'why not, in a line';
