-- Verbs in bulk as JSON: one of them with up to 100 of the runs that refused, or {"bulk": [...]},
-- the newest 100, without an id. Null if there is none of this id.
create or replace function saga.bulk_json_v1(p_id text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    with rows as (
        select b.bulk_id, b.at, json_build_object(
                   'bulk_id', b.bulk_id, 'verb', b.verb, 'state', b.state, 'total', b.total,
                   'released', b.released, 'done', b.done, 'refused', b.refused, 'lost', b.lost,
                   'stopped', b.stopped, 'filter', b.filter, 'rate', b.rate,
                   'max_error_share', b.max_error_share, 'reason', b.reason, 'actor', b.actor,
                   'at', saga.time_text(b.at), 'ended_at', saga.time_text(b.ended_at),
                   'refusals', case when p_id is not null then coalesce((
                       select json_agg(json_build_object('run_id', w.run_id, 'outcome', w.outcome,
                                                         'answer', w.answer)
                                       order by w.number)
                         from (select *
                                 from saga.bulk_run u
                                where u.bulk_id = b.bulk_id and u.outcome <> 'done'
                                order by u.number
                                limit 100) w), '[]') end) as row
          from saga.bulk b
         where p_id is null or b.bulk_id = p_id
         order by b.at desc, b.bulk_id
         limit 100)
    select case when p_id is not null then (select r.row from rows r)
                else json_build_object('bulk', coalesce(
                     (select json_agg(r.row order by r.at desc, r.bulk_id) from rows r), '[]')) end;
$$;
comment on function saga.bulk_json_v1(text) is
    'Verbs in bulk as JSON. [engine, operator, reader]';
