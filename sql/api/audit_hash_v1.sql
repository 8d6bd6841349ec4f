-- The hash of a row of an audit chain: SHA-256 of the hash before it (32 bytes) and of the row as a
-- JSON list in UTF-8: [chain, no, microseconds since 1970, verb, actor, run id, step, reason,
-- outcome], members separated by a comma and a space.
create or replace function saga.audit_hash_v1(p_before bytea, p_row saga.audit_act)
returns bytea
language sql immutable
set search_path = pg_catalog, saga, pg_temp
as $$
    select sha256(p_before || convert_to(
        json_build_array(p_row.chain, p_row.no, (extract(epoch from p_row.at) * 1000000)::bigint,
                         p_row.verb, p_row.actor, p_row.run_id, p_row.step, p_row.reason,
                         p_row.outcome)::text, 'UTF8'));
$$;
comment on function saga.audit_hash_v1(bytea, saga.audit_act) is
    'The hash of a row of an audit chain.';
