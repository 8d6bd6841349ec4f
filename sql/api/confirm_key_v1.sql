-- Nobody but a daemon signs, or needs to check.
create or replace function saga.confirm_key_v1() returns text
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select pg_catalog.encode(m.confirm_key, 'hex') from saga.meta m;
$$;
comment on function saga.confirm_key_v1() is
    'Key of the tokens that dry runs give, in hex digits. [engine]';
