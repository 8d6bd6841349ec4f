-- What waits in the inbox for these shards, oldest ids first (ids are time-ordered where we make
-- them). By state, never by "later than the last one seen": a row may become visible after rows
-- with later ids. One row with a null id if there is nothing; workflows_no comes with each.
create or replace function saga.inbox_poll_v1(p_shards bigint, p_limit integer)
returns table (workflows_no bigint, shard smallint, id text, kind text, run_id text,
               workflow_hash bytea, body text, actor text, at timestamptz)
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
as $$
    select m.workflows_no, i.*
      from saga.meta m
      left join lateral (
          select i.shard, i.id, i.kind, i.run_id, i.workflow_hash, i.body::text, i.actor, i.at
            from saga.inbox i
           where i.outcome is null and p_shards >> i.shard & 1 = 1
           order by i.at, i.id
           limit p_limit) i on true;
$$;
comment on function saga.inbox_poll_v1(bigint, integer) is
    'Unsettled rows of the inbox, and whether definitions changed. [engine]';
