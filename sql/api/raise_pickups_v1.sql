-- Counts a take-over in mid-attempt, for the open runs of these shards. Where it is the first,
-- pickups becomes 1. Where it is not, something in the run may be what kills its owners: it is set
-- apart, and counted when it is taken up (saga.apart_v1), so that runs which only were in flight
-- beside it are not counted with it again. Called with the lanes' rows locked.
create or replace function saga.raise_pickups_v1(p_shards bigint)
returns void
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    update saga.run r
       set apart = true
     where r.ended_at is null and p_shards >> r.shard & 1 = 1 and not r.apart
       and r.park_reason is distinct from 'crash_loop'
       and exists (select from saga.effect e
                    where e.shard = r.shard and e.run_id = r.run_id
                      and e.state = 'claimed' and e.pickups > 0);

    update saga.effect e
       set pickups = 1
      from saga.run r
     where r.ended_at is null and p_shards >> r.shard & 1 = 1 and not r.apart
       and e.shard = r.shard and e.run_id = r.run_id and e.state = 'claimed' and e.pickups = 0;
end
$$;
comment on function saga.raise_pickups_v1(bigint) is 'Counts take-overs in mid-attempt.';
