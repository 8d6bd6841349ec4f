-- Runs, newest first, page by page: {"runs": [...], "next": cursor or null}. Each filter may be
-- null; p_since is an age, p_where an SQL/JSON path (saga.run_matches_v1). Looks at the newest
-- seconds first, then further and further back until the page is full, because the newest runs are
-- what people ask for and old pages are skipped.
create or replace function saga.runs_json_v3(p_state text, p_workflow text, p_since interval,
                                             p_limit integer, p_cursor text, p_where text,
                                             p_tenant text)
returns json
language plpgsql stable security definer
set search_path = pg_catalog, saga, pg_temp
set enable_seqscan = off -- run_created skips old pages, also where the table is small
set max_parallel_workers_per_gather = 0
set jit = off
as $$
declare
    v_limit integer := least(greatest(coalesce(p_limit, 100), 1), 1000);
    v_state saga.run_state := nullif(p_state, 'paused');
    v_paused boolean := p_state = 'paused';
    v_open boolean := p_state in ('paused', 'queued', 'running', 'compensating', 'parked');
    v_before timestamptz := 'infinity';
    v_before_id text := '';
    v_from timestamptz;
    v_floor timestamptz := coalesce(clock_timestamp() - p_since, '-infinity');
    v_window interval;
    v_where jsonpath := saga.where_v1(p_where);
    v_ids text[];
    v_times timestamptz[];
begin
    if p_cursor is not null then
        begin
            v_before := split_part(p_cursor, '/', 1)::timestamptz;
            v_before_id := substr(p_cursor, length(split_part(p_cursor, '/', 1)) + 2);
        exception when data_exception then
            raise exception 'this is not a cursor' using errcode = 'invalid_parameter_value';
        end;
    end if;
    foreach v_window in array array['5 s', '1 min', '15 min', '3 h', '2 d', null]::interval[] loop
        v_from := greatest(v_floor, coalesce(least(v_before, clock_timestamp()) - v_window,
                                             '-infinity'));
        select array_agg(x.run_id order by x.created_at desc, x.run_id),
               array_agg(x.created_at order by x.created_at desc, x.run_id)
          into v_ids, v_times
          from (select r.run_id, r.created_at
                  from saga.run r
                 where r.created_at >= v_from and r.created_at <= v_before
                   and (r.created_at < v_before or r.run_id > v_before_id)
                   and (v_state is null or r.state = v_state)
                   and (v_paused is not true or r.paused)
                   and (v_open is not true or r.ended_at is null)
                   and (p_workflow is null or exists (
                        select from saga.run_key k
                         where k.shard = r.shard and k.run_id = r.run_id
                           and k.workflow = p_workflow))
                   and (p_tenant is null or exists (
                        select from saga.run_key k
                         where k.shard = r.shard and k.run_id = r.run_id
                           and k.tenant = p_tenant))
                   and (v_where is null or saga.run_matches_v1(r.shard, r.run_id, v_where))
                 order by r.created_at desc, r.run_id
                 limit v_limit) x;
        exit when cardinality(v_ids) = v_limit or v_from = v_floor;
    end loop;
    return json_build_object(
        'runs', coalesce((
            select json_agg((select saga.run_summary_v1(r)
                               from saga.runs r
                              where r.shard = saga.shard_of(i.run_id) and r.run_id = i.run_id
                             offset 0) order by i.no)
              from unnest(v_ids) with ordinality as i (run_id, no)), '[]'),
        'next', case when cardinality(v_ids) = v_limit
                     then saga.time_text(v_times[v_limit]) || '/' || v_ids[v_limit] end);
end
$$;
comment on function saga.runs_json_v3(text, text, interval, integer, text, text, text) is
    'A page of runs as JSON. [engine, operator, reader]';
