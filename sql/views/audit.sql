create or replace view saga.audit as
select a.at, a.verb, a.actor, nullif(a.run_id, '') as run_id, nullif(a.step, '') as step_id,
       a.reason, a.outcome, a.chain, a.no, pg_catalog.encode(a.hash, 'hex') as hash
  from saga.audit_act a;
comment on view saga.audit is
    'What people did, in chains of hashes: select * from saga.audit_verify() checks them.';
comment on column saga.audit.at is 'when it was decided';
comment on column saga.audit.verb is 'cancel, settle, ...; apply: a definition was registered';
comment on column saga.audit.actor is 'uid:N (by the socket) or role:NAME (by SQL)';
comment on column saga.audit.run_id is 'the run; null: it was about no run';
comment on column saga.audit.step_id is 'the step that the act names; null: the run as a whole';
comment on column saga.audit.reason is 'the reason that was given, or a detail';
comment on column saga.audit.outcome is 'done, or refused or conflict and why';
comment on column saga.audit.chain is 'the shard of the run; 64: no run';
comment on column saga.audit.no is 'its place in the chain, from 1 without gaps';
comment on column saga.audit.hash is 'SHA-256 of the hash before it and of this row';
