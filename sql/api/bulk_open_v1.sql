-- Counts the runs that a verb is meant for (p_dry_run), or begins to work them off, at once and
-- once: the row of saga.bulk says how far it is. Answers as data, {"verdict": ...}:
--   counted   {count, run_ids: the first 20, token}
--   opened    {bulk_id, total}
--   none      the filter takes no run
--   missing   {run_ids}: there are no such runs; nothing was begun
--   many      it takes more than 100,000
--   expired   the token is older than 10 minutes
--   changed   {count, token}: the filter takes more runs than were counted, or is another one
-- The token says what a person was shown: how many runs, when, of which filter. What has come since
-- then is not touched; what has left the filter meanwhile is fine. Whoever names runs by their ids
-- needs none.
create or replace function saga.bulk_open_v1(p_id text, p_verb text, p_filter json,
                                             p_since interval, p_body json, p_reason text,
                                             p_rate double precision,
                                             p_max_error_share double precision, p_token text,
                                             p_dry_run boolean, p_actor text)
returns json
language plpgsql volatile security definer
set search_path = pg_catalog, saga, pg_temp
set jit = off
as $$
declare
    v_now timestamptz := clock_timestamp();
    v_before timestamptz := v_now;
    v_most constant integer := 100000;
    v_where jsonpath := saga.where_v1(p_filter ->> 'where');
    v_mark text := left(encode(sha256(convert_to(p_verb || ' ' || p_filter::jsonb::text, 'UTF8')),
                               'hex'), 16);
    v_asked text[] := case when json_typeof(p_filter -> 'run_ids') = 'array'
                           then array(select json_array_elements_text(p_filter -> 'run_ids')) end;
    v_ids text[];
    v_missing text[];
    v_token text;
begin
    if not p_dry_run and p_token is not null then
        if p_token !~ '^[0-9]{1,9}\.[0-9]{1,17}\.[0-9a-f]{16}$' then
            raise exception 'the token is none that a dry run has given'
                  using errcode = 'invalid_parameter_value';
        end if;
        v_before := to_timestamp(split_part(p_token, '.', 2)::numeric / 1000000);
        if v_before < v_now - interval '10 minutes' then
            return json_build_object('verdict', 'expired');
        end if;
        v_before := least(v_before, v_now);
    end if;
    if v_asked is not null then
        v_missing := array(
            select distinct i.id
              from unnest(v_asked) as i (id)
             where not exists (select from saga.run r
                                where r.shard = saga.shard_of(i.id) and r.run_id = i.id)
             order by i.id);
        if cardinality(v_missing) > 0 then
            return json_build_object('verdict', 'missing', 'run_ids', v_missing[1:20]);
        end if;
    end if;
    v_ids := array(
        select m.run_id
          from saga.bulk_match_v1(p_verb, p_filter ->> 'state', p_filter ->> 'workflow', p_since,
                                  v_where, v_asked, v_before, v_most + 1) m);
    if cardinality(v_ids) > v_most then
        return json_build_object('verdict', 'many', 'count', v_most);
    end if;
    v_token := cardinality(v_ids) || '.' || (extract(epoch from v_now) * 1000000)::bigint || '.' ||
               v_mark;
    if p_dry_run then
        return json_build_object('verdict', 'counted', 'count', cardinality(v_ids),
                                 'run_ids', v_ids[1:20], 'token', v_token);
    end if;
    if cardinality(v_ids) = 0 then
        return json_build_object('verdict', 'none');
    end if;
    if p_token is not null and (split_part(p_token, '.', 3) <> v_mark
                                or cardinality(v_ids) > split_part(p_token, '.', 1)::integer) then
        return json_build_object('verdict', 'changed', 'count', cardinality(v_ids),
                                 'token', v_token);
    end if;
    insert into saga.bulk_request (bulk_id, shard, verb, filter, body, reason, actor, rate,
                           max_error_share, total, credit_at)
    values (p_id, saga.shard_of(p_id), p_verb, p_filter, p_body, p_reason, p_actor, p_rate,
            p_max_error_share, cardinality(v_ids), v_now - make_interval(secs => 1 / p_rate));
    insert into saga.bulk_run (bulk_id, number, run_id)
    select p_id, i.number, i.run_id
      from unnest(v_ids) with ordinality as i (run_id, number);
    return json_build_object('verdict', 'opened', 'bulk_id', p_id, 'total', cardinality(v_ids));
end
$$;
comment on function saga.bulk_open_v1(text, text, json, interval, json, text, double precision,
                                      double precision, text, boolean, text) is
    'Counts the runs of a verb in bulk, or begins with them. [engine]';
