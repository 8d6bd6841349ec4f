-- Counts a take-over in mid-attempt: raises pickups of every claimed effect of the open runs of
-- these shards. A run with more than 5 is parked with crash_loop and is not loaded again until a
-- person acts: something in it may be what kills its owners. Called with the lanes' rows locked.
create or replace function saga.raise_pickups_v1(p_shards bigint)
returns void
language plpgsql security definer
set search_path = pg_catalog, saga, pg_temp
as $$
begin
    update saga.effect e
       set pickups = e.pickups + 1
      from saga.run r
     where r.ended_at is null and p_shards >> r.shard & 1 = 1
       and e.shard = r.shard and e.run_id = r.run_id and e.state = 'claimed';

    with looping as (
        update saga.run r
           set state = 'parked', park_reason = 'crash_loop'
         where r.ended_at is null and p_shards >> r.shard & 1 = 1
           and r.park_reason is distinct from 'crash_loop'
           and exists (select from saga.effect e
                        where e.shard = r.shard and e.run_id = r.run_id
                          and e.state = 'claimed' and e.pickups > 5)
        returning r.shard, r.run_id)
    insert into saga.event (shard, run_id, seq, at, what, step, detail, actor)
    select l.shard, l.run_id,
           1 + coalesce((select max(v.seq) from saga.event v
                          where v.shard = l.shard and v.run_id = l.run_id), 0),
           clock_timestamp(), 'parked', '',
           'crash_loop: its owner died more than 5 times in mid-attempt', ''
      from looping l;
end
$$;
comment on function saga.raise_pickups_v1(bigint) is 'Counts take-overs in mid-attempt.';
