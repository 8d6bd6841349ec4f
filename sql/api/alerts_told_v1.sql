-- The target was told of all that alerts_take_v1 answered with.
create or replace function saga.alerts_told_v1(p_target text, p_shards bigint, p_upto bigint)
returns void
language sql volatile security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    update saga.alert a
       set told_at = clock_timestamp()
     where a.target = p_target and a.told_at is null and a.id <= p_upto
       and (case when a.kind = 'breaker' then p_shards & 1 else p_shards >> a.shard & 1 end) = 1;
$$;
comment on function saga.alerts_told_v1(text, bigint, bigint) is
    'A target of alerts has them. [engine]';
