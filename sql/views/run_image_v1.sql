-- saga.run_image_v2 as daemons below schema version 2 read it: effects without their items.
create or replace view saga.run_image_v1 as
select i.shard, i.run_id, i.workflow_hash, i.workflow, i.tenant, i.actor, i.created_at,
       i.deadline_at, i.input_hash, i.input, i.state, i.direction, i.turn, i.cause, i.park_reason,
       i.paused, i.ended_at, i.error, i.output, i.residue,
       (select pg_catalog.array_agg(
                   (e.shard, e.run_id, e.step_id, e.item, e.direction, e.generation, e.turn,
                    e.state, e.claim_no, e.attempts, e.attempts_free, e.attempts_base, e.pickups,
                    e.maybe_applied, e.by_hand, e.output_invalid, e.outcome, e.request_hash,
                    e.claimed_at, e.budget_at, e.key_valid_until, e.next_at, e.ended_at,
                    e.output, e.error)::saga.effect_v1
                   order by e.claim_no)
          from pg_catalog.unnest(i.effects) e
       ) as effects,
       i.events
  from saga.run_image_v2 i;
