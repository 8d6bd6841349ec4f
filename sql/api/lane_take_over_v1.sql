-- Takes all shards of a daemon that is dead: whose lanes (p_lanes, with p_epochs and p_beats) the
-- caller saw unchanged for longer than their ttl by its own clock. Compare and set: if any of them
-- has moved since, nothing happens. Fences every lane of the dead daemon in the same transaction.
-- Answers the bits of the shards that moved; null if the lanes have moved or the caller is fenced.
create or replace function saga.lane_take_over_v1(
    p_lane text, p_epoch bigint, p_daemon text, p_lanes text[], p_epochs bigint[],
    p_beats bigint[])
returns bigint
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_mine integer;
    v_theirs integer;
    v_clean boolean;
    v_shards bigint;
begin
    perform from saga.lane l
      where l.daemon = p_daemon or l.lane = p_lane order by l.lane for update;
    select l.lane_no into v_mine
      from saga.lane l where l.lane = p_lane and l.epoch = p_epoch and l.kind = 'write';
    if not found or not saga.lanes_unmoved_v1(p_daemon, p_lanes, p_epochs, p_beats) then
        return null;
    end if;
    select l.lane_no, l.clean into v_theirs, v_clean
      from saga.lane l where l.lane = p_daemon;
    with moved as (
        update saga.shard s set lane_no = v_mine where s.lane_no = v_theirs
        returning s.shard)
    select coalesce(bit_or(1::bigint << m.shard), 0) into v_shards from moved m;
    if not v_clean then
        perform saga.raise_pickups_v1(v_shards);
    end if;
    update saga.lane l
       set epoch = l.epoch + 1, beat = l.beat + 1, clean = true
     where l.daemon = p_daemon;
    return v_shards;
end
$$;
comment on function saga.lane_take_over_v1(text, bigint, text, text[], bigint[], bigint[]) is
    'Takes the shards of a dead daemon and fences its lanes. [engine]';
