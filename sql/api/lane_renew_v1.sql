-- Keeps lanes alive that wrote nothing for a while. Answers false if one of them is fenced (the
-- others are renewed all the same, which harms nobody: all lanes of a daemon are fenced together).
create or replace function saga.lane_renew_v1(p_lanes text[], p_epochs bigint[],
                                              out renewed boolean, out db_now timestamptz,
                                              out shards bigint)
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
declare
    v_count bigint;
begin
    update saga.lane l
       set beat = l.beat + 1, last_time = greatest(l.last_time, clock_timestamp())
      from (select * from unnest(p_lanes, p_epochs) as x (lane, epoch) offset 0) m
     where l.lane = m.lane and l.epoch = m.epoch;
    get diagnostics v_count = row_count;
    renewed := v_count = cardinality(p_lanes);
    db_now := clock_timestamp();
    shards := coalesce((select bit_or(1::bigint << s.shard)
                          from saga.shard s
                          join saga.lane l on l.lane_no = s.lane_no
                         where l.lane = any (p_lanes)), 0);
end
$$;
comment on function saga.lane_renew_v1(text[], bigint[]) is
    'Keeps idle lanes alive; tells which shards they carry. [engine]';
