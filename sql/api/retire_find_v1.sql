-- Looks for runs whose data may go, in these shards (bit per shard), oldest ends first, behind the
-- place (p_shard, p_after, p_after_id), among at most p_limit finished runs. Answers {"runs":
-- [[root, child, ...], ...], "shard", "after", "after_id": where to go on; shard null: at the end}.
-- Only looks: nothing is locked, and who removes must ask again.
create or replace function saga.retire_find_v1(
    p_shards bigint, p_default interval, p_shard integer, p_after text, p_after_id text,
    p_limit integer, p_now timestamptz)
returns json
language plpgsql stable security definer
set search_path = pg_catalog, saga, pg_temp
set datestyle = iso
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_now timestamptz := coalesce(p_now, clock_timestamp());
    v_least interval := (select min(greatest(coalesce(w.retain, p_default), w.retain_after))
                           from saga.workflow w
                          where w.retain_known and coalesce(w.retain, p_default) is not null);
    v_after timestamptz := coalesce(p_after::timestamptz, '-infinity');
    v_after_id text := coalesce(p_after_id, '');
    v_ids text[] := '{}';
    v_page text[];
    v_last timestamptz;
    v_left integer := p_limit;
    v_end json;
begin
    for v_shard in coalesce(p_shard, 0)..63 loop
        exit when v_least is null;
        continue when p_shards >> v_shard & 1 = 0;
        select array_agg(x.run_id order by x.ended_at, x.run_id), max(x.ended_at)
          into v_page, v_last
          from (select r.run_id, r.ended_at
                  from saga.run r
                 where r.shard = v_shard::smallint and r.ended_at is not null
                   and (r.ended_at, r.run_id) > (v_after, v_after_id)
                   and r.ended_at <= v_now - v_least
                 order by r.ended_at, r.run_id
                 limit v_left) x;
        v_left := v_left - coalesce(cardinality(v_page), 0);
        v_ids := v_ids || v_page;
        if v_left = 0 then
            v_end := json_build_object('shard', v_shard, 'after', v_last,
                                       'id', v_page[cardinality(v_page)]);
            exit;
        end if;
        v_after := '-infinity';
        v_after_id := '';
    end loop;
    return json_build_object(
        'runs', coalesce((
            select json_agg(array(
                       select i.id
                       union all
                       (select c.run_id from saga.run c
                         where c.shard = saga.shard_of(i.id)
                           and c.run_id >= i.id || '~' and c.run_id < i.id || E'\x7f'
                         order by c.run_id)) order by i.no)
              from unnest(v_ids) with ordinality i (id, no)
             where saga.retire_due_v1(saga.shard_of(i.id), i.id, p_default, v_now)), '[]'),
        'shard', v_end -> 'shard', 'after', v_end -> 'after', 'after_id', v_end -> 'id');
end
$$;
comment on function saga.retire_find_v1(bigint, interval, integer, text, text, integer,
                                        timestamptz) is
    'Finished runs whose data may go. [engine]';
