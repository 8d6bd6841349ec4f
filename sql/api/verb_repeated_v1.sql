-- Whether a verb that was refused as a conflict is the one that was obeyed last: the same person,
-- reason and words, and no other decision was taken about the run since. The state of the run then:
-- whoever repeats a decision that was obeyed is told so. Null: it is another one.
create or replace function saga.verb_repeated_v1(p_kind text, p_run_id text, p_actor text,
                                                 p_body json)
returns text
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select case when p_kind = 'retry' then saga.retry_repeated_v1(p_run_id, p_actor, p_body)
                else (
        select r.state::text
          from saga.run r
         cross join lateral (
               select e.*
                 from saga.event e
                where e.shard = r.shard and e.run_id = r.run_id
                  and e.what in ('approve', 'reject', 'retry', 'settle', 'skip', 'cancel',
                                 'compensate', 'abandon')
                order by e.seq desc
                limit 1) v
         where r.shard = saga.shard_of(p_run_id) and r.run_id = p_run_id
           and v.what = p_kind and v.actor = p_actor and v.detail = p_body ->> 'reason'
           and v.step = split_part(p_body ->> 'step', ':', 1)
           and case when p_kind in ('approve', 'reject') then exists (
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
                    else false end
         limit 1) end;
$$;
comment on function saga.verb_repeated_v1(text, text, text, json) is
    'Is this verb the one that was obeyed? [engine]';
