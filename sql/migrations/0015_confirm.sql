-- The key under which the daemons of an installation sign what they must know again.

alter table saga.meta add column confirm_key bytea not null
    default pg_catalog.sha256(pg_catalog.uuid_send(pg_catalog.gen_random_uuid())
                              || pg_catalog.uuid_send(pg_catalog.gen_random_uuid()));
comment on column saga.meta.confirm_key is
    'key of the tokens that dry runs give; another value makes those that are out worthless';
