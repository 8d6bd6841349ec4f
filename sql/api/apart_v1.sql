-- Takes up some of the runs of the lane's shards that were set apart, and returns which. Those whose
-- owners died least come first; the more often they died, the fewer are taken up together (64, 8,
-- then one alone), so that what kills its owner is soon alone with its death.
-- p_before: the runs taken up last; while p_patient, none follow until each of them has an outcome.
create or replace function saga.apart_v1(p_lane text, p_epoch bigint, p_before text[],
                                         p_patient boolean)
returns table (run_id text)
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
#variable_conflict use_column
declare
    v_run record;
    v_first integer;
    v_count integer := 0;
begin
    if p_patient and exists (
        select from unnest(p_before) b (run_id)
          join saga.effect e on e.shard = saga.shard_of(b.run_id) and e.run_id = b.run_id
         where e.state = 'claimed' and e.pickups > 0) then
        return;
    end if;
    for v_run in
        select r.run_id,
               coalesce((select max(e.pickups) from saga.effect e
                          where e.shard = r.shard and e.run_id = r.run_id
                            and e.state = 'claimed'), 0) as pickups
          from saga.lane l
          join saga.shard s on s.lane_no = l.lane_no
          join saga.run r on r.shard = s.shard
         where l.lane = p_lane and l.epoch = p_epoch and r.apart
         order by 2, 1
    loop
        v_first := coalesce(v_first, v_run.pickups);
        exit when v_count > 0 and v_run.pickups > v_first
            or v_count >= case when v_first <= 1 then 64 when v_first = 2 then 8 else 1 end;
        if saga.pick_up_v1(p_lane, p_epoch, v_run.run_id) then
            v_count := v_count + 1;
            run_id := v_run.run_id;
            return next;
        end if;
    end loop;
end
$$;
comment on function saga.apart_v1(text, bigint, text[], boolean) is
    'Takes up runs whose owners died over and over. [engine]';
