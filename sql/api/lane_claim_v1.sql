-- Takes those of the given shards that nobody carries. Answers the bits that were taken; null if
-- the lane is fenced.
create or replace function saga.lane_claim_v1(p_lane text, p_epoch bigint, p_shards bigint)
returns bigint
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_lane_no integer;
    v_taken bigint;
begin
    select l.lane_no into v_lane_no
      from saga.lane l
     where l.lane = p_lane and l.epoch = p_epoch and l.kind = 'write' for update;
    if not found then
        return null;
    end if;
    perform from saga.shard s order by s.shard for update;
    with taken as (
        update saga.shard s set lane_no = v_lane_no
         where s.lane_no is null and p_shards >> s.shard & 1 = 1
        returning s.shard)
    select coalesce(bit_or(1::bigint << t.shard), 0) into v_taken from taken t;
    return v_taken;
end
$$;
comment on function saga.lane_claim_v1(text, bigint, bigint) is
    'Takes shards that nobody carries. [engine]';
