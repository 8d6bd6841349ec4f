-- Removes the data of finished runs: of each of these roots, with all that it started, unless it
-- is not due (any more). What stays is the row of saga.run_key, which tells how the run ended: the
-- tombstone. Audit rows stay, too. Answers how many runs were removed; null: fenced.
--
-- Called by the owner of the shard, which has made sure that none of these runs is in its memory
-- and lets nothing of them in before the answer. So what could meet this is a new owner: it cannot
-- come before this has ended, because whoever acquires or moves a shard locks its row, which is
-- held here; and the row tells whether the caller still is the owner. Units lock neither, so that
-- they never wait for this. The advisory lock makes a second call, after the first one's connection
-- went away, wait for the end of that one.
create or replace function saga.retire_v1(
    p_lane text, p_epoch bigint, p_shard smallint, p_roots text[], p_default interval,
    p_now timestamptz)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_ids text[];
begin
    perform pg_advisory_xact_lock(hashtext('saga.retire'), p_shard);
    perform from saga.shard s where s.shard = p_shard for share;
    if not exists (select from saga.shard s
                     join saga.lane l on l.lane_no = s.lane_no
                    where s.shard = p_shard and l.lane = p_lane and l.epoch = p_epoch) then
        return null;
    end if;
    select array_agg(f.run_id) into v_ids
      from unnest(p_roots) i (id)
     cross join lateral (
           select i.id as run_id
           union all
           select r.run_id from saga.run r
            where r.shard = p_shard
              and r.run_id >= i.id || '~' and r.run_id < i.id || E'\x7f') f
     where saga.retire_due_v1(p_shard, i.id, p_default, v_now)
       and not exists ( -- a verb for many runs still has to read what came of it here
           select from saga.bulk_request q
             join saga.bulk_run b on b.bulk_id = q.bulk_id
            where q.ended_at is null and b.outcome is null and b.number <= q.released
              and (b.run_id = i.id or b.run_id like i.id || '~%'));
    if v_ids is null then
        return 0;
    end if;
    update saga.run_key k
       set outcome = r.state, closed_at = r.ended_at, removed_at = clock_timestamp()
      from (select id from unnest(v_ids) u (id) offset 0) i
      join saga.run r on r.shard = p_shard and r.run_id = i.id
     where k.shard = p_shard and k.run_id = i.id;
    delete from saga.attempt x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.finding x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.event x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.signal x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.input x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.approval x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.inbox x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id and x.outcome is not null;
    delete from saga.effect x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    delete from saga.run x using (select id from unnest(v_ids) u (id) offset 0) i
     where x.shard = p_shard and x.run_id = i.id;
    return cardinality(v_ids);
end
$$;
comment on function saga.retire_v1(text, bigint, smallint, text[], interval, timestamptz) is
    'Removes the data of finished runs; the tombstone stays. [engine]';
