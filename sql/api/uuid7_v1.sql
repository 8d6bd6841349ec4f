-- A time-ordered UUID (version 7): milliseconds since 1970, then random bits.
create or replace function saga.uuid7_v1()
returns text
language sql volatile
set search_path = pg_catalog, pg_temp
as $$
    select encode(set_bit(set_bit(overlay(
               uuid_send(gen_random_uuid())
               placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint)
                                 from 3)
               from 1 for 6), 52, 1), 53, 1), 'hex')::uuid::text;
$$;
comment on function saga.uuid7_v1() is 'A time-ordered UUID.';
