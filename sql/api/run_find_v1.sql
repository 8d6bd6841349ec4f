-- The ids that begin with this text, as a JSON list of at most 11 (more than 10 are
-- too many to name); an id that is exactly it wins.
create or replace function saga.run_find_v1(p_prefix text)
returns json
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select coalesce(
        (select json_build_array(k.run_id)
           from saga.run_key k
          where k.shard = saga.shard_of(p_prefix) and k.run_id = p_prefix),
        (select json_agg(f.run_id order by f.run_id)
           from (select k.run_id
                   from saga.shard s
                  cross join lateral (
                        select x.run_id
                          from saga.run_key x
                         where x.shard = s.shard and x.run_id >= p_prefix
                           and x.run_id < p_prefix || U&'\+10FFFF'
                         order by x.run_id
                         limit 11) k
                  order by k.run_id
                  limit 11) f),
        '[]');
$$;
comment on function saga.run_find_v1(text) is
    'Run ids that begin with a text, as JSON. [engine, operator, reader]';
