create or replace view saga.schedules as
select s.workflow, s.cron, s.zone, s.overlap, s.catch_up, s.next_tick, s.last_tick, s.last_run,
       r.state as last_state, s.skipped, s.last_skipped
  from saga.schedule s
  join saga.workflow w on w.name = s.workflow and w.current and w.hash = s.workflow_hash
  left join saga.run r on r.shard = saga.shard_of(s.last_run) and r.run_id = s.last_run;
comment on view saga.schedules is 'Workflows that the clock starts, and their ticks.';
comment on column saga.schedules.workflow is 'name of the workflow';
comment on column saga.schedules.cron is 'minute, hour, day of month, month, day of week';
comment on column saga.schedules.zone is 'whose clocks it goes by';
comment on column saga.schedules.overlap is
    'what a tick does while the run before it is open: skip (nothing is started), queue (it waits)';
comment on column saga.schedules.catch_up is
    'which of the ticks are started that passed while no daemon ran: none, last, all';
comment on column saga.schedules.next_tick is 'when it starts the next run; null: never';
comment on column saga.schedules.last_tick is
    'the last tick that was started or skipped; until the first one: when the schedule began';
comment on column saga.schedules.last_run is 'the run that was started last';
comment on column saga.schedules.last_state is 'what has become of it';
comment on column saga.schedules.skipped is 'ticks skipped so far';
comment on column saga.schedules.last_skipped is 'the last tick that was skipped';
