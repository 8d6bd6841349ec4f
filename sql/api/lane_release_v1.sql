-- The end of a drain: nothing is in flight, every unit is decided. Frees the shards at once, so
-- that others need not wait for the ttl. Answers false if the lanes were fenced before.
create or replace function saga.lane_release_v1(p_daemon text, p_epoch bigint)
returns boolean
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_write saga.lane;
begin
    perform from saga.lane l where l.daemon = p_daemon order by l.lane for update;
    select * into v_write from saga.lane l where l.lane = p_daemon and l.epoch = p_epoch;
    if not found then
        return false;
    end if;
    update saga.lane l
       set clean = true, epoch = l.epoch + 1, beat = l.beat + 1
     where l.daemon = p_daemon;
    update saga.shard s set lane_no = null where s.lane_no = v_write.lane_no;
    return true;
end
$$;
comment on function saga.lane_release_v1(text, bigint) is
    'Releases the lanes of a daemon that has drained. [engine]';
