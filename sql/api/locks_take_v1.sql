-- Which of these runs hold their lock now: a JSON list of their places in the list, from 1 on, rising.
-- A run that has no ticket and waits gets one; the first unpaused one of those with the same value
-- holds it if nobody does. A lock belongs to its run, not to the daemon that asks: a daemon that has
-- lost the run meanwhile asks for whoever has it now.
--
-- A ticket is made only while no unit can end the run, so that none is left behind one that ended; a
-- row that a unit writes at this moment is passed over, and asked for again. Locks are taken in the
-- order of their values: two such calls wait for each other at most once.
create or replace function saga.locks_take_v1(p_run_ids text[])
returns json
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    v_run record;
begin
    for v_run in
        select r.shard, r.run_id, k.tenant, r.lock
          from unnest(p_run_ids) a (run_id)
          join saga.run r on r.shard = saga.shard_of(a.run_id) and r.run_id = a.run_id
          join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
         where r.state = 'queued' and r.lock is not null
           and not exists (select from saga.lock_ticket t
                            where t.shard = r.shard and t.run_id = r.run_id)
         order by array_position(p_run_ids, a.run_id)
    loop
        perform from saga.run r
          where r.shard = v_run.shard and r.run_id = v_run.run_id and r.state = 'queued'
            for share skip locked;
        if found then
            insert into saga.lock_ticket (shard, run_id, tenant, lock)
            values (v_run.shard, v_run.run_id, v_run.tenant, v_run.lock)
                on conflict (shard, run_id) do nothing;
        end if;
    end loop;

    for v_run in
        select t.shard, t.run_id
          from unnest(p_run_ids) a (run_id)
          join saga.lock_ticket t on t.shard = saga.shard_of(a.run_id) and t.run_id = a.run_id
          join saga.run r on r.shard = t.shard and r.run_id = t.run_id
         where t.held_since is null and not r.paused
           and not exists (select from saga.lock_ticket h
                            where h.tenant = t.tenant and h.lock = t.lock
                              and h.held_since is not null)
           and not exists (select from saga.lock_ticket b
                             join saga.run w on w.shard = b.shard and w.run_id = b.run_id
                            where b.tenant = t.tenant and b.lock = t.lock
                              and b.held_since is null and b.ticket < t.ticket and not w.paused)
         order by t.tenant, t.lock
    loop
        begin
            update saga.lock_ticket t
               set held_since = clock_timestamp()
             where t.shard = v_run.shard and t.run_id = v_run.run_id and t.held_since is null;
        exception when unique_violation then
            null; -- another one was faster
        end;
    end loop;

    return coalesce((
        select json_agg(a.place order by a.place)
          from unnest(p_run_ids) with ordinality a (run_id, place)
          join saga.lock_ticket t on t.shard = saga.shard_of(a.run_id) and t.run_id = a.run_id
         where t.held_since is not null), '[]');
end
$$;
comment on function saga.locks_take_v1(text[]) is
    'Which of these runs hold their lock; those that may take it do. [engine]';
