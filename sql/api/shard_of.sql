-- The shard of a run id: the first byte of SHA-256 of its root, modulo 64. The root is the id up
-- to the first "~", so that a run and its children share a shard. shard_of() in C is the same
-- function; 64 is frozen.
create or replace function saga.shard_of(run_id text)
returns smallint
language sql immutable strict parallel safe
return (pg_catalog.get_byte(
            pg_catalog.sha256(pg_catalog.convert_to(pg_catalog.split_part(run_id, '~', 1), 'UTF8')),
            0) & 63)::smallint;
comment on function saga.shard_of(text) is
    'The shard (0 to 63) of a run id. [engine, operator, reader, submit]';
