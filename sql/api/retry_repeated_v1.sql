-- Whether a retry that found its run not parked is the one by which the run left its park: the same
-- person, reason and inputs, and nothing was decided about the run since. The state of the run then:
-- whoever repeats a decision that was obeyed is told so. Null: it is another one.
create or replace function saga.retry_repeated_v1(p_run_id text, p_actor text, p_body json)
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
              and e.what in ('parked', 'retry', 'settle', 'skip', 'cancel', 'compensate', 'abandon')
            order by e.seq desc
            limit 1) v
      left join saga.input i on i.shard = r.shard and i.run_id = r.run_id and i.at = v.at
      left join saga.effect s on s.shard = r.shard and s.run_id = r.run_id
                             and s.claimed_at = v.at and s.step_input is not null
     where r.shard = saga.shard_of(p_run_id) and r.run_id = p_run_id
       and v.what = 'retry' and v.actor = p_actor and v.detail = p_body ->> 'reason'
       and saga.jsonb_or_null_v1(i.input)
           is not distinct from nullif(saga.jsonb_or_null_v1(p_body -> 'input'), 'null')
       and saga.jsonb_or_null_v1(s.step_input)
           is not distinct from nullif(saga.jsonb_or_null_v1(p_body -> 'step_input'), 'null')
     limit 1;
$$;
comment on function saga.retry_repeated_v1(text, text, json) is
    'Is this retry the one that was obeyed? [engine]';
