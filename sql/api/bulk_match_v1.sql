-- The runs that a verb in bulk is for, oldest first, up to p_limit. Without p_run_ids only those
-- that the verb can do something about: paused ones are resumed, others are paused; and without a
-- state, what the verb is usually meant for. Ended runs are never taken without being named by
-- their state.
create or replace function saga.bulk_match_v1(p_verb text, p_state text, p_workflow text,
                                              p_since interval, p_where jsonpath,
                                              p_run_ids text[], p_before timestamptz,
                                              p_limit integer)
returns table (shard smallint, run_id text)
language plpgsql stable
set search_path = pg_catalog, saga, pg_temp
as $$
#variable_conflict use_column
declare
    v_usual saga.run_state[] := case when p_run_ids is not null then null
        when p_state is not null then array[p_state]
        when p_verb = 'cancel' then '{queued,running,parked}'
        when p_verb in ('retry', 'compensate', 'abandon') then '{parked}'
        else '{queued,running,compensating,parked}' end;
    v_paused boolean := case when p_run_ids is not null then null
        when p_verb = 'pause' then false when p_verb = 'resume' then true end;
    v_open boolean := not v_usual && '{completed,compensated,abandoned}'::saga.run_state[];
begin
    if p_run_ids is not null then
        return query
            select r.shard, r.run_id
              from unnest(p_run_ids) as i (id)
              join saga.run r on r.shard = saga.shard_of(i.id) and r.run_id = i.id
             where (p_state is null or r.state = p_state::saga.run_state)
               and (p_workflow is null or exists (
                    select from saga.run_key k
                     where k.shard = r.shard and k.run_id = r.run_id and k.workflow = p_workflow))
               and (p_since is null or r.created_at >= clock_timestamp() - p_since)
               and (p_where is null or saga.run_matches_v1(r.shard, r.run_id, p_where))
             group by r.shard, r.run_id, r.created_at
             order by r.created_at, r.run_id
             limit p_limit;
        return;
    end if;
    return query
        select r.shard, r.run_id
          from saga.run r
         where r.state = any (v_usual) and (not v_open or r.ended_at is null)
           and r.created_at <= p_before
           and (v_paused is null or r.paused = v_paused)
           and (p_workflow is null or exists (
                select from saga.run_key k
                 where k.shard = r.shard and k.run_id = r.run_id and k.workflow = p_workflow))
           and (p_since is null or r.created_at >= clock_timestamp() - p_since)
           and (p_where is null or saga.run_matches_v1(r.shard, r.run_id, p_where))
         order by r.created_at, r.run_id
         limit p_limit;
end
$$;
comment on function saga.bulk_match_v1(text, text, text, interval, jsonpath, text[], timestamptz,
                                       integer) is
    'The runs that a verb in bulk is for.';
