-- Whether a verb that was refused as a conflict is the one that was obeyed last: the same person,
-- reason and words, and no other decision was taken about the run since; to a retry the next park
-- is one, too. The state of the run then: whoever repeats a decision that was obeyed is told so.
-- Null: it is another one.
create or replace function saga.verb_repeated_v1(p_kind text, p_run_id text, p_actor text,
                                                 p_body json)
returns text
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select r.state::text
      from saga.run r
     cross join lateral (
           select e.*
             from saga.event e
            where e.shard = r.shard and e.run_id = r.run_id
              and (e.what in ('retry', 'settle', 'skip', 'cancel', 'compensate', 'abandon')
                   or e.what in ('approve', 'reject') and p_kind <> 'retry'
                   or e.what = 'parked' and p_kind = 'retry')
            order by e.seq desc
            limit 1) v
     where r.shard = saga.shard_of(p_run_id) and r.run_id = p_run_id
       and v.what = p_kind and v.actor = p_actor and v.detail = p_body ->> 'reason'
       and case when p_kind = 'retry' then
                saga.jsonb_or_null_v1((
                    select i.input from saga.input i
                     where i.shard = r.shard and i.run_id = r.run_id and i.at = v.at
                     limit 1))
                is not distinct from nullif(saga.jsonb_or_null_v1(p_body -> 'input'), 'null')
                and saga.jsonb_or_null_v1((
                    select s.step_input from saga.effect s
                     where s.shard = r.shard and s.run_id = r.run_id and s.claimed_at = v.at
                       and s.step_input is not null
                     limit 1))
                is not distinct from nullif(saga.jsonb_or_null_v1(p_body -> 'step_input'), 'null')
                when v.step <> split_part(p_body ->> 'step', ':', 1) then false
                when p_kind in ('approve', 'reject') then exists (
                select from saga.approval a
                 where a.shard = r.shard and a.run_id = r.run_id
                   and a.step_id || case when a.item = '' then '' else '.' || a.item end = v.step
                   and a.decided_at = v.at
                   and (p_body ->> 'hash' is null
                        or length(p_body ->> 'hash') >= 8
                           and starts_with(encode(a.request_hash, 'hex'), p_body ->> 'hash')))
                when p_kind = 'settle' then exists (
                select from saga.finding f
                 where f.shard = r.shard and f.run_id = r.run_id
                   and f.step_id || case when f.item = '' then '' else '.' || f.item end = v.step
                   and f.at = v.at and f.source = 'person'
                   and split_part(p_body ->> 'step', ':', 2) in ('', f.direction::text)
                   and f.says = case when (p_body ->> 'applied')::boolean then 'applied'
                                     else 'retryable' end::saga.outcome)
                else false end;
$$;
comment on function saga.verb_repeated_v1(text, text, text, json) is
    'Is this verb the one that was obeyed? [engine]';
