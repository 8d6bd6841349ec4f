create or replace view saga.alerts as
select a.target, a.kind, nullif(a.run_id, '') as run_id, nullif(a.service, '') as service, a.since,
       a.told_at
  from saga.alert a;
comment on view saga.alerts is
    'What waits now (runs that are parked, breakers that are open), and whether the targets of the '
    'config''s alerts were told of it. A row goes when it is over: this is no history.';
comment on column saga.alerts.target is 'name of the target in the config';
comment on column saga.alerts.kind is 'parked (a run waits for a person), breaker (a service is down)';
comment on column saga.alerts.run_id is 'the run; null: it is about a service';
comment on column saga.alerts.service is 'the service; null: it is about a run';
comment on column saga.alerts.since is 'when it was noticed';
comment on column saga.alerts.told_at is 'when the target took it; null: not yet, it is told again';
