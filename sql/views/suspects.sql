-- As suspect_from_v1 says, for readers, who may not call it.
create or replace view saga.suspects as
select r.run_id, k.workflow, r.state, r.park_reason, w.at as restore_noticed_at,
       case when o.created_at < w.at then least(o.created_at, l.acked_at)
            else l.acked_at end as suspect_from
  from (select pg_catalog.max(x.at) as at from saga.rewind x) w
 cross join saga.shard s
  join saga.run r on r.shard = s.shard and r.ended_at is null
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
  join saga.run o on o.shard = r.shard and o.run_id = pg_catalog.split_part(r.run_id, '~', 1)
  left join lateral (select pg_catalog.min(x.acked_at) as acked_at from saga.lost_start x
                      where x.shard = o.shard and x.run_id = o.run_id) l on true
 where (o.created_at < w.at or l.acked_at is not null)
   and not exists (select from saga.event v
                    where v.shard = r.shard and v.run_id = r.run_id and v.what = 'trusted'
                      and v.at > w.at);
comment on view saga.suspects is
    'Open runs from before a restore: what they did since may be missing here. They go on where a '
    'repeat does no harm, or their service can be asked; else they park with the reason suspect.';
comment on column saga.suspects.run_id is 'the run';
comment on column saga.suspects.workflow is 'name of its workflow';
comment on column saga.suspects.state is 'its state';
comment on column saga.suspects.park_reason is 'why it is parked; null: it is not';
comment on column saga.suspects.restore_noticed_at is 'when a daemon noticed the restore';
comment on column saga.suspects.suspect_from is 'from when on something may be missing';
