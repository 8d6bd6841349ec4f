-- From when on something of a run may be missing, because the database was restored after it had
-- begun, or after one of its id had; null: nothing, or a person has vouched for it since. A child
-- began with its root, whatever its row says: it may have been started again.
create or replace function saga.suspect_from_v1(p_shard smallint, p_run_id text, p_at timestamptz)
returns timestamptz
language sql stable
set search_path = pg_catalog, saga, pg_temp
as $$
    select case when r.created_at < p_at then least(r.created_at, l.acked_at)
                else l.acked_at end
      from saga.run r
      left join lateral (select min(x.acked_at) as acked_at from saga.lost_start x
                          where x.shard = p_shard and x.run_id = r.run_id) l on true
     where r.shard = p_shard and r.run_id = split_part(p_run_id, '~', 1)
       and not exists (select from saga.event v
                        where v.shard = p_shard and v.run_id = p_run_id and v.what = 'trusted'
                          and v.at > p_at);
$$;
comment on function saga.suspect_from_v1(smallint, text, timestamptz) is
    'From when on something of a run may be missing.';
