-- A word on an outcome that was obeyed says nothing of what was sent after it: whoever repeats it
-- then (a script that has lost the answer) would have an action sent once more that nobody has
-- looked at. Why the settle is refused; null: it is none of that kind.
create or replace function saga.settle_repeated_v1(p_run_id text, p_actor text, p_body json)
returns text
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select 'step "' || (p_body ->> 'step') || '": this word was obeyed, at ' ||
           saga.time_text(f.at) || ', for an earlier attempt; what was sent since is unknown again '
           'and needs a decision of its own: look anew, and give a reason of its own'
      from saga.finding f
      join saga.effect e on e.shard = f.shard and e.run_id = f.run_id and e.step_id = f.step_id
                        and e.item = f.item and e.direction = f.direction
                        and e.generation >= f.generation and e.state = 'unknown'
     where f.shard = saga.shard_of(p_run_id) and f.run_id = p_run_id
       and f.step_id || case when f.item = '' then '' else '.' || f.item end
           = split_part(p_body ->> 'step', ':', 1)
       and split_part(p_body ->> 'step', ':', 2) in ('', f.direction::text)
       and f.source = 'person' and f.actor = p_actor and f.detail = p_body ->> 'reason'
       and f.says = case when (p_body ->> 'applied')::boolean then 'applied'
                         else 'retryable' end::saga.outcome
     order by f.at desc
     limit 1;
$$;
comment on function saga.settle_repeated_v1(text, text, json) is
    'Why a settle that was obeyed for an earlier attempt is refused. [engine]';
