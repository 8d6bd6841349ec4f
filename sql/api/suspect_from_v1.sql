-- From when on something of a run may be missing, because the database was restored after it had
-- begun; null: nothing, or a person has vouched for it since. A child began with its root, whatever
-- its row says: it may have been started again.
create or replace function saga.suspect_from_v1(p_shard smallint, p_run_id text, p_at timestamptz)
returns timestamptz
language sql stable
set search_path = pg_catalog, saga, pg_temp
as $$
    select r.created_at
      from saga.run r
     where r.shard = p_shard and r.run_id = split_part(p_run_id, '~', 1) and r.created_at < p_at
       and not exists (select from saga.event v
                        where v.shard = p_shard and v.run_id = p_run_id and v.what = 'trusted'
                          and v.at > p_at);
$$;
comment on function saga.suspect_from_v1(smallint, text, timestamptz) is
    'From when on something of a run may be missing.';
