create or replace view saga.suspects as
select r.run_id, k.workflow, r.state, r.park_reason, w.at as restore_noticed_at,
       saga.suspect_from_v1(r.shard, r.run_id, w.at) as suspect_from
  from (select pg_catalog.max(x.at) as at from saga.rewind x) w
 cross join saga.shard s
  join saga.run r on r.shard = s.shard and r.ended_at is null
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
 where w.at is not null and saga.suspect_from_v1(r.shard, r.run_id, w.at) is not null;
comment on view saga.suspects is
    'Open runs from before a restore: what they did since may be missing here. They go on where a '
    'repeat does no harm, or their service can be asked; else they park with the reason suspect.';
comment on column saga.suspects.run_id is 'the run';
comment on column saga.suspects.workflow is 'name of its workflow';
comment on column saga.suspects.state is 'its state';
comment on column saga.suspects.park_reason is 'why it is parked; null: it is not';
comment on column saga.suspects.restore_noticed_at is 'when a daemon noticed the restore';
comment on column saga.suspects.suspect_from is 'from when on something may be missing';
