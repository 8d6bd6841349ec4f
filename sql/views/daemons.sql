create or replace view saga.daemons as
select l.daemon, l.clean as left_cleanly,
       not l.clean and l.last_time + 3 * l.ttl > pg_catalog.clock_timestamp() as alive,
       (select pg_catalog.count(*)::integer from saga.shard s where s.lane_no = l.lane_no)
           as shards,
       (select pg_catalog.count(*)::integer
          from saga.shard s join saga.run r on r.shard = s.shard
         where s.lane_no = l.lane_no and r.ended_at is null) as open_runs,
       l.epoch, l.seq as units, l.last_time as last_seen, l.ttl as lease
  from saga.lane l
 where l.kind = 'write';
comment on view saga.daemons is 'Daemons and what they own.';
comment on column saga.daemons.daemon is 'its name (sagad --name)';
comment on column saga.daemons.left_cleanly is 'it drained, or another one took its work over';
comment on column saga.daemons.alive is 'it was heard of within three times its lease';
comment on column saga.daemons.shards is 'how many of the 64 shards it carries';
comment on column saga.daemons.open_runs is 'open runs in them';
comment on column saga.daemons.epoch is 'fencing number of its lease: raised at each acquisition';
comment on column saga.daemons.units is 'transactions that it has written';
comment on column saga.daemons.last_seen is 'its last sign of life, by the database''s clock';
comment on column saga.daemons.lease is 'how long its silence is taken for life';
