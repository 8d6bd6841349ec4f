-- Definitions for a daemon to compile: the current ones, and those with the given hashes.
create or replace function saga.workflow_sources_v1(p_hashes bytea[])
returns table (hash bytea, name text, version text, source text, current boolean)
language sql stable security definer
set search_path = pg_catalog, saga, pg_temp
as $$
    select w.hash, w.name, w.version, w.source, w.current
      from saga.workflow w
     where case when p_hashes is null then w.current else w.hash = any (p_hashes) end
     order by w.applied_no;
$$;
comment on function saga.workflow_sources_v1(bytea[]) is 'Definitions by hash, or current. [engine]';
