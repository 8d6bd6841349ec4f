-- Notices what a target of alerts is to be told and answers with what it was not told yet; null:
-- nothing. {"upto": ID for alerts_told_v1, "parked": {"count", "runs": the first 20 of
-- {run_id, workflow, tenant, step, reason, code (cut), parked_at}}, "breakers": [{service, open_until}]}
-- What is over is forgotten, told or not: it can be told anew when it comes again. p_shards: of the
-- daemon; whoever has shard 0 tells of breakers. p_on: parked, unknown (of the parked ones only
-- those whose outcome is unknown), breaker.
create or replace function saga.alerts_take_v1(p_target text, p_shards bigint, p_on text[])
returns json
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
set jit = off
as $$
declare
    v_upto bigint;
    v_parked json;
    v_breakers json;
begin
    delete from saga.alert a
     where a.kind = 'parked' and p_shards >> a.shard & 1 = 1
       and not exists (select from saga.run r
                        where r.shard = a.shard and r.run_id = a.run_id and r.state = 'parked'
                          and a.mark = (select coalesce(max(v.seq), 0) from saga.event v
                                         where v.shard = r.shard and v.run_id = r.run_id
                                           and v.what = 'parked'));
    insert into saga.alert (target, shard, kind, run_id, service, mark)
    select p_target, r.shard, 'parked', r.run_id, '', p.mark
      from saga.shard s
      join saga.run r on r.shard = s.shard and r.state = 'parked'
     cross join lateral (
           select coalesce(max(v.seq), 0) as mark from saga.event v
            where v.shard = r.shard and v.run_id = r.run_id and v.what = 'parked') p
     where p_shards >> s.shard & 1 = 1
       and ('parked' = any (p_on)
            or ('unknown' = any (p_on) and r.park_reason = 'outcome_unknown'))
        on conflict do nothing;
    if p_shards & 1 = 1 then
        -- A breaker that opens again after each try has been told; a daemon that is gone leaves its
        -- word behind.
        delete from saga.alert a
         where a.kind = 'breaker'
           and not exists (select from saga.service_state s
                            where s.service = a.service and s.state <> 'closed'
                              and coalesce(s.open_until, s.changed_at)
                                  > clock_timestamp() - interval '10 minutes');
        insert into saga.alert (target, shard, kind, run_id, service, mark)
        select distinct p_target, -1, 'breaker', '', s.service, 0
          from saga.service_state s
         where 'breaker' = any (p_on) and s.state = 'open'
           and s.open_until > clock_timestamp() - interval '10 minutes'
            on conflict do nothing;
    end if;

    with pending as (
        select a.* from saga.alert a
         where a.target = p_target and a.told_at is null
           and (case when a.kind = 'breaker' then p_shards & 1 else p_shards >> a.shard & 1 end) = 1
    ), first as (
        select a.shard, a.run_id, a.mark, a.id
          from pending a
         where a.kind = 'parked'
         order by a.id
         limit 20
    )
    select (select max(id) from pending),
           (select json_build_object('count', count(*), 'runs', (
                       select coalesce(json_agg(json_build_object(
                                  'run_id', f.run_id, 'workflow', k.workflow,
                                  'tenant', nullif(k.tenant, ''), 'step', nullif(v.step, ''),
                                  'reason', r.park_reason,
                                  'code', left(regexp_replace(d.error ->> 'code',
                                                              '[[:cntrl:]]', '?', 'g'), 100),
                                  'parked_at', saga.time_text(v.at)) order by f.id), '[]')
                         from first f
                         join saga.run r on r.shard = f.shard and r.run_id = f.run_id
                         join saga.run_key k on k.shard = r.shard and k.run_id = r.run_id
                         left join saga.event v on v.shard = f.shard and v.run_id = f.run_id
                                               and v.seq = f.mark
                         left join saga.dead_letters d on d.shard = f.shard
                                                      and d.run_id = f.run_id))
              from pending where kind = 'parked'),
           (select coalesce(json_agg(json_build_object(
                       'service', b.service, 'open_until', (
                           select saga.time_text(max(s.open_until)) from saga.service_state s
                            where s.service = b.service)) order by b.id), '[]')
              from pending b where b.kind = 'breaker')
      into v_upto, v_parked, v_breakers;
    return case when v_upto is not null
                then json_build_object('upto', v_upto, 'parked', v_parked,
                                       'breakers', v_breakers) end;
end
$$;
comment on function saga.alerts_take_v1(text, bigint, text[]) is
    'What a target of alerts is to be told now, as JSON. [engine]';
