create or replace view saga.rewinds as
select w.at, w.daemon, w.acked_seq - w.found_seq as units_lost, w.found_at as restored_to,
       w.acked_at as lost_until,
       (select pg_catalog.count(*) from saga.lost_start l where l.rewind_no = w.no) as starts_lost
  from saga.rewind w;
comment on view saga.rewinds is
    'When daemons found the database older than what it had acknowledged to them: after a restore, or '
    'a failover to a standby that had not everything.';
comment on column saga.rewinds.at is 'when it was noticed';
comment on column saga.rewinds.daemon is 'by whom; each daemon that lost something notices by itself';
comment on column saga.rewinds.units_lost is 'how many transactions of that daemon are missing';
comment on column saga.rewinds.restored_to is 'about when the last one was written that is here';
comment on column saga.rewinds.lost_until is 'when the last one was acknowledged';
comment on column saga.rewinds.starts_lost is
    'how many runs are gone whose start was acknowledged: saga.lost_starts';
