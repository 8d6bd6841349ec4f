-- What a daemon needs to build a run in memory: its row, its effects (newest generation of each,
-- steps before instances of loops, then in claim order) its newest event and its signals. Not for readers:
-- saga.runs and saga.steps are.
create or replace view saga.run_image_v2 as
select r.shard, r.run_id, k.workflow_hash, k.workflow, k.tenant, r.actor, r.created_at,
       r.deadline_at, k.input_hash, r.input, r.state::text as state,
       r.direction::text as direction, r.turn, r.cause::text as cause,
       r.park_reason::text as park_reason, r.paused, r.ended_at, r.error, r.output, r.residue,
       (select pg_catalog.array_agg(
                   (e.shard, e.run_id, e.step_id, e.item, e.direction, e.generation, r.turn,
                    e.state, e.claim_no, e.attempts, e.attempts_free, e.attempts_base, e.pickups,
                    e.maybe_applied, e.by_hand, e.output_invalid, e.outcome, e.request_hash,
                    e.claimed_at, e.budget_at, e.key_valid_until, e.next_at, e.ended_at,
                    e.output, e.error, e.items, e.unknown_at, e.ask_until, e.findings, e.found,
                    e.answer, e.step_input, e.renewed, e.waits_for,
                    e.approval)::saga.effect_v2
                   order by e.item <> '', e.claim_no)
          from (select distinct on (x.step_id, x.item, x.direction) x.* -- the index backward
                  from saga.effect x
                 where x.shard = r.shard and x.run_id = r.run_id
                 order by x.step_id desc, x.item desc, x.direction desc, x.generation desc) e
       ) as effects,
       (select v.seq from saga.event v
         where v.shard = r.shard and v.run_id = r.run_id order by v.seq desc limit 1) as events,
       r.start_at, r.parent, r.depth,
       (select pg_catalog.array_agg(
                   (s.shard, s.run_id, s.name, s.data, s.at, s.actor)::saga.signal_v1 order by s.at)
          from saga.signal s
         where s.shard = r.shard and s.run_id = r.run_id) as signals,
       (select pg_catalog.array_agg(
                   (i.shard, i.run_id, i.number, i.from_claim, i.direction, i.input, i.at,
                    i.actor)::saga.input_v1 order by i.number)
          from saga.input i
         where i.shard = r.shard and i.run_id = r.run_id) as inputs,
       r.compensate_until,
       case when w.at is not null then saga.suspect_from_v1(r.shard, r.run_id, w.at) end
           as suspect_from,
       r.lock
  from saga.run r
  join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
 cross join (select pg_catalog.max(x.at) as at from saga.rewind x) w;
