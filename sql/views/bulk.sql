create or replace view saga.bulk as
select b.bulk_id, b.verb,
       case when b.ended_at is null then case when b.stopped is null then 'working'
                                              else 'stopping' end
            when b.released < b.total then 'stopped' else 'done' end as state,
       b.total, b.released, b.done, b.refused, b.stopped, b.filter, b.rate,
       b.max_error_share, b.reason, b.actor, b.at, b.ended_at, b.lost
  from saga.bulk_request b
 where (select saga.tenants_seen()) is null; -- a filter may be about any tenant's runs
comment on view saga.bulk is
    'Verbs for many runs at once, with how far each is; its runs are in saga.bulk_runs.';
comment on column saga.bulk.bulk_id is 'the id that POST /v1/runs:VERB returned';
comment on column saga.bulk.verb is 'cancel, pause, resume, retry, compensate, abandon';
comment on column saga.bulk.state is
    'working; stopping (some requests are still out); done; stopped before all were released';
comment on column saga.bulk.total is 'how many runs the filter took';
comment on column saga.bulk.released is 'how many of them were asked for so far';
comment on column saga.bulk.done is 'how many obeyed';
comment on column saga.bulk.refused is
    'how many did not allow it: decided otherwise before, past the pivot, unknown outcome';
comment on column saga.bulk.lost is 'how many runs were gone when it was their turn: removed by retention';
comment on column saga.bulk.stopped is 'why it was stopped: too many refusals, or by whom';
comment on column saga.bulk.filter is 'which runs: state, workflow, since, where, run_ids';
comment on column saga.bulk.rate is 'runs a second';
comment on column saga.bulk.max_error_share is
    'it stops when more than this share of at least 10 runs were refused';
comment on column saga.bulk.reason is 'why; kept with the history of each run';
comment on column saga.bulk.actor is 'who asked for it';
comment on column saga.bulk.at is 'when';
comment on column saga.bulk.ended_at is 'when the last of its requests was decided';
