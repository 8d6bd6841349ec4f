-- The holder first, then those that wait, in the order in which they will get it.
create or replace view saga.locks as
select t.lock, nullif(t.tenant, '') as tenant,
       case when t.held_since is null
            then pg_catalog.row_number() over (partition by t.tenant, t.lock, t.held_since is null
                                                   order by t.ticket) else 0 end as position,
       t.run_id, k.workflow, r.state, r.paused, coalesce(t.held_since, t.since) as since,
       case when t.held_since is null
            then (select h.run_id from saga.lock_ticket h
                   where h.tenant = t.tenant and h.lock = t.lock
                     and h.held_since is not null) end as holder
  from saga.lock_ticket t
  join saga.run r on r.shard = t.shard and r.run_id = t.run_id
  join saga.run_key k on k.shard = t.shard and k.run_id = t.run_id;
comment on view saga.locks is 'Locks of workflows: which run holds each, and which wait for it.';
comment on column saga.locks.lock is 'the value that the workflow''s lock gives the run''s input';
comment on column saga.locks.tenant is
    'whose it is: runs of different tenants never wait for each other; null: nobody in particular';
comment on column saga.locks.position is
    '0: it holds the lock; 1: it is the next; those that are paused are passed over';
comment on column saga.locks.run_id is 'the run';
comment on column saga.locks.workflow is 'name of its workflow';
comment on column saga.locks.state is 'its state; a parked run keeps its lock';
comment on column saga.locks.paused is 'a person has paused it';
comment on column saga.locks.since is 'since when it holds it, or waits for it';
comment on column saga.locks.holder is
    'the run that holds it; null: this one does, or nobody at this moment';
