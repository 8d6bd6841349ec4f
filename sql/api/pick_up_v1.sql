-- Takes up one run that was set apart, for the lane that owns it and has not loaded it: raises
-- pickups of its claimed effects. With more than 5 it is parked with crash_loop and is not loaded
-- again until a person acts. False then, if it was not set apart, or if the lane is not the owner.
create or replace function saga.pick_up_v1(p_lane text, p_epoch bigint, p_run_id text)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_shard smallint := saga.shard_of(p_run_id);
begin
    perform from saga.lane l
       join saga.shard s on s.lane_no = l.lane_no
      where l.lane = p_lane and l.epoch = p_epoch and s.shard = v_shard
        for share of l; -- whoever takes the lane over waits for this, or this finds it taken
    if not found then
        return false;
    end if;
    update saga.run r set apart = false
     where r.shard = v_shard and r.run_id = p_run_id and r.apart;
    if not found then
        return false;
    end if;
    update saga.effect e
       set pickups = e.pickups + 1
     where e.shard = v_shard and e.run_id = p_run_id and e.state = 'claimed';
    update saga.run r
       set state = 'parked', park_reason = 'crash_loop'
     where r.shard = v_shard and r.run_id = p_run_id and r.ended_at is null
       and exists (select from saga.effect e
                    where e.shard = v_shard and e.run_id = p_run_id
                      and e.state = 'claimed' and e.pickups > 5);
    if not found then
        return true;
    end if;
    insert into saga.event (shard, run_id, seq, at, what, step, detail, actor)
    select v_shard, p_run_id,
           1 + coalesce((select max(v.seq) from saga.event v
                          where v.shard = v_shard and v.run_id = p_run_id), 0),
           clock_timestamp(), 'parked', '',
           'crash_loop: its owner died more than 5 times in mid-attempt', '';
    return false;
end
$$;
comment on function saga.pick_up_v1(text, bigint, text) is 'Takes up a run that was set apart. [engine]';
