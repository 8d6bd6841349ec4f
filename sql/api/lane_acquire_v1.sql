-- A daemon takes its own lanes: the write lane, named like the daemon, and p_actions lanes for SQL
-- actions (NAME/sql1, NAME/sql2, ...). Works when one of these proves that nobody holds them:
--   the lanes are new, or were released cleanly, or another daemon has taken their shards;
--   one of p_nonces, which the caller read under the lock of its own file, is the lane's: then the
--   last holder is a dead process of this machine, or the caller itself;
--   (p_lanes, p_epochs, p_beats) is still the state of all of them, which the caller saw unchanged
--   for longer than their ttl by its own clock.
-- Otherwise returns no row: wait and observe. Raises the epoch of every lane; and pickups, unless
-- the lanes were released cleanly or the caller did not crash but lost sight of the database.
create or replace function saga.lane_acquire_v1(
    p_daemon text, p_nonces text[], p_nonce text, p_ttl interval, p_actions integer,
    p_crashed boolean, p_lanes text[], p_epochs bigint[], p_beats bigint[])
returns table (lane text, kind text, epoch bigint, seq bigint, last_time timestamptz,
               db_now timestamptz, shards bigint)
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
#variable_conflict use_column
declare
    v_write saga.lane;
    v_shards bigint;
begin
    insert into saga.lane (lane, daemon, kind, ttl, nonce, epoch, clean)
    values (p_daemon, p_daemon, 'write', p_ttl, p_nonce, 0, true)
        on conflict do nothing;
    perform from saga.lane l where l.daemon = p_daemon order by l.lane for update;
    if exists (select from saga.lane l
                where l.daemon = p_daemon and not l.clean
                  and not l.nonce = any (coalesce(p_nonces, '{}')))
       and not saga.lanes_unmoved_v1(p_daemon, p_lanes, p_epochs, p_beats) then
        return;
    end if;
    insert into saga.lane (lane, daemon, kind, ttl, nonce, epoch, clean)
    select p_daemon || '/sql' || i, p_daemon, 'action', p_ttl, p_nonce, 0, true
      from generate_series(1, p_actions) i
        on conflict do nothing;

    select * into v_write from saga.lane l where l.lane = p_daemon;
    -- A removal by the last holder, if its session still lives, ends before the runs are loaded.
    perform from saga.shard s where s.lane_no = v_write.lane_no order by s.shard for update;
    v_shards := coalesce((select bit_or(1::bigint << s.shard) from saga.shard s
                           where s.lane_no = v_write.lane_no), 0);
    if p_crashed and not v_write.clean then
        perform saga.raise_pickups_v1(v_shards);
    end if;
    return query
        update saga.lane l
           set epoch = l.epoch + 1, beat = l.beat + 1, clean = false, nonce = p_nonce,
               ttl = p_ttl
         where l.daemon = p_daemon
        returning l.lane, l.kind::text, l.epoch, l.seq, l.last_time, clock_timestamp(),
                  case when l.kind = 'write' then v_shards else 0 end;
end
$$;
comment on function saga.lane_acquire_v1(text, text[], text, interval, integer, boolean, text[],
                                         bigint[], bigint[]) is
    'A daemon takes its own lanes. [engine]';
