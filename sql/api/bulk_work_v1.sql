-- Works off what is open in these shards: notes what became of the requests that are out (a run that
-- was gone when its turn came is lost: nobody refused), stops
-- where too many were refused, and releases as many more as the rate allows since the last time, at
-- most a second's worth. Returns how many are open still. Each in its row's lock, so that several
-- daemons, or one that died in between, neither release twice nor lose anything.
create or replace function saga.bulk_work_v1(p_shards bigint)
returns integer
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    b saga.bulk_request;
    v_now timestamptz;
    v_decided integer;
    v_credit double precision;
    v_release integer;
    v_open integer := 0;
begin
    for b in select * from saga.bulk_request
              where ended_at is null and p_shards >> shard & 1 = 1
              order by at, bulk_id
                for update skip locked loop
        with told as (
            update saga.bulk_run u
               set outcome = i.outcome, answer = i.answer
              from saga.bulk_run o
             cross join lateral (
                   select case when x.outcome = 'done' then 'done'
                               when x.outcome = 'conflict' or x.code = 'not_found' then 'lost'
                               else 'refused' end as outcome, x.answer
                     from saga.inbox x
                    where x.shard = saga.shard_of(o.run_id)
                      and x.id = o.bulk_id || '.' || o.number and x.outcome is not null
                   offset 0) i
             where o.bulk_id = b.bulk_id and o.number <= b.released and o.outcome is null
               and u.bulk_id = o.bulk_id and u.number = o.number
            returning u.outcome)
        select b.done + count(*) filter (where t.outcome = 'done'),
               b.refused + count(*) filter (where t.outcome = 'refused'),
               b.lost + count(*) filter (where t.outcome = 'lost')
          into b.done, b.refused, b.lost
          from told t;
        v_decided := b.done + b.refused + b.lost;
        if b.stopped is null and b.released < b.total and v_decided >= 10
           and b.refused > b.max_error_share * v_decided then
            b.stopped := b.refused || ' of the first ' || v_decided || ' were refused';
        end if;
        v_now := clock_timestamp();
        v_credit := least(extract(epoch from v_now - b.credit_at) * b.rate,
                          greatest(b.rate, 1.0));
        v_release := case when b.stopped is null
                          then greatest(least(b.total - b.released, floor(v_credit)::integer,
                                              greatest(10, ceil(b.rate)::integer)
                                              - (b.released - v_decided)), 0)
                          else 0 end;
        if v_release > 0 then
            insert into saga.inbox (shard, id, kind, run_id, body, actor)
            select saga.shard_of(u.run_id), u.bulk_id || '.' || u.number, b.verb, u.run_id, b.body,
                   b.actor
              from saga.bulk_run u
             where u.bulk_id = b.bulk_id and u.number > b.released
               and u.number <= b.released + v_release
             order by u.number
                on conflict do nothing;
            b.released := b.released + v_release;
            b.credit_at := v_now - make_interval(secs => (v_credit - v_release) / b.rate);
        end if;
        if v_decided = b.released and (b.released = b.total or b.stopped is not null) then
            b.ended_at := v_now;
        else
            v_open := v_open + 1;
        end if;
        update saga.bulk_request u
           set released = b.released, done = b.done, refused = b.refused, lost = b.lost,
               credit_at = b.credit_at, stopped = b.stopped, ended_at = b.ended_at
         where u.bulk_id = b.bulk_id
           and (u.released, u.done, u.refused, u.lost, u.stopped, u.ended_at) is distinct from
               (b.released, b.done, b.refused, b.lost, b.stopped, b.ended_at);
    end loop;
    return v_open;
end
$$;
comment on function saga.bulk_work_v1(bigint) is
    'Works off the verbs in bulk of some shards. [engine]';
