-- Whether the data of a run may go: of a root, with all that it started. Every one of them has
-- ended, the root's own retention is over, and for none of them anything may still come.
create or replace function saga.retire_due_v1(p_shard smallint, p_run_id text, p_default interval,
                                              p_now timestamptz)
returns boolean
language sql stable
set search_path = pg_catalog, saga, pg_temp
as $$
    select exists (
               select from saga.run r
                 join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
                 join saga.workflow w on w.hash = k.workflow_hash
                where r.shard = p_shard and r.run_id = p_run_id and r.parent is null
                  and w.retain_known and r.ended_at <= p_now - coalesce(w.retain, p_default)
                  and r.ended_at <= p_now - w.retain_after)
       and not exists (
               select from saga.run r
                 join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
                 left join saga.workflow w on w.hash = k.workflow_hash
                where r.shard = p_shard
                  and r.run_id >= p_run_id || '~' and r.run_id < p_run_id || E'\x7f'
                  and (r.ended_at is null or w.retain_known is not true
                       or r.ended_at > p_now - w.retain_after));
$$;
comment on function saga.retire_due_v1(smallint, text, interval, timestamptz) is
    'May the data of a root and its children go?';
