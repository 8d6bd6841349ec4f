create or replace view saga.tombstones as
select k.run_id, k.workflow, w.version, nullif(k.tenant, '') as tenant, k.outcome as state,
       k.closed_at as ended_at, k.removed_at, k.shard
  from saga.shard s
  join saga.run_key k on k.shard = s.shard
  left join saga.workflow w on w.hash = k.workflow_hash
 where k.outcome is not null;
comment on view saga.tombstones is
    'Finished runs whose data was removed by retention: how they ended is all that is left.';
comment on column saga.tombstones.run_id is 'the id; it is never given to another run';
comment on column saga.tombstones.workflow is 'name of its workflow';
comment on column saga.tombstones.version is 'version of the definition under which it ended';
comment on column saga.tombstones.tenant is 'whom it belonged to; null: nobody in particular';
comment on column saga.tombstones.state is 'how it ended: completed, compensated, abandoned';
comment on column saga.tombstones.ended_at is 'when it ended';
comment on column saga.tombstones.removed_at is 'when its input, output and history were removed';
comment on column saga.tombstones.shard is
    'its shard: with "shard = saga.shard_of(ID)" one run is found at once';
