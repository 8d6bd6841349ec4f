create or replace view saga.lost_starts as
select l.run_id, l.workflow, l.acked_at, w.at as noticed_at, w.daemon,
       exists (select from saga.run_key k
                where k.shard = l.shard and k.run_id = l.run_id) as started_again
  from saga.lost_start l
  join saga.rewind w on w.no = l.rewind_no;
comment on view saga.lost_starts is
    'Runs whose start was acknowledged, and perhaps carried out, and that a restore took away: tell '
    'who submitted them, and look at the services before they are submitted again.';
comment on column saga.lost_starts.run_id is 'the id';
comment on column saga.lost_starts.workflow is 'name of its workflow';
comment on column saga.lost_starts.acked_at is 'when the start was acknowledged';
comment on column saga.lost_starts.noticed_at is 'when it was found to be missing';
comment on column saga.lost_starts.daemon is 'which daemon had acknowledged it';
comment on column saga.lost_starts.started_again is 'whether there is a run of this id by now';
