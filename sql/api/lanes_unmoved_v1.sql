-- Is (lanes, epochs, beats) the state of all lanes of this daemon, now? Called with them locked.
create or replace function saga.lanes_unmoved_v1(p_daemon text, p_lanes text[], p_epochs bigint[],
                                                 p_beats bigint[])
returns boolean
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select cardinality(p_lanes) > 0 and not exists (
        select from (select l.lane, l.epoch, l.beat from saga.lane l where l.daemon = p_daemon) now
          full join (select * from unnest(p_lanes, p_epochs, p_beats) as x (lane, epoch, beat)) seen
                 on seen.lane = now.lane and seen.epoch = now.epoch and seen.beat = now.beat
         where now.lane is null or seen.lane is null);
$$;
comment on function saga.lanes_unmoved_v1(text, text[], bigint[], bigint[]) is
    'Have the lanes of a daemon stood still since they were looked at?';
