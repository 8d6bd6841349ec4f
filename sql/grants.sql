-- Who may do what. Runs last, as saga_admin; says everything anew each time, so that nothing that
-- was granted by accident stays. Nothing is granted to PUBLIC.

revoke all on schema saga from public;
revoke all on all tables in schema saga from public;
revoke all on all sequences in schema saga from public;
revoke all on all functions in schema saga from public;

do $$
declare
    r record;
begin
    for r in
        select t.oid::pg_catalog.regtype as name
          from pg_catalog.pg_type t
         where t.typnamespace = 'saga'::pg_catalog.regnamespace
           and t.typtype in ('c', 'e', 'd')
           and not exists (select from pg_catalog.pg_class c
                            where c.oid = t.typrelid and c.relkind <> 'c')
    loop
        execute pg_catalog.format('revoke all on type %s from public', r.name);
    end loop;

    -- The views are the interface for reading.
    for r in
        select c.oid::pg_catalog.regclass as name
          from pg_catalog.pg_class c
         where c.relnamespace = 'saga'::pg_catalog.regnamespace and c.relkind = 'v'
           and c.relname !~ '_v[0-9]+$'
    loop
        execute pg_catalog.format('grant select on %s to saga_reader', r.name);
    end loop;

    -- Functions say in their comment whom they are for: "... [operator, engine]".
    for r in
        select p.oid::pg_catalog.regprocedure as name, role
          from pg_catalog.pg_proc p
          join pg_catalog.pg_description d
            on d.objoid = p.oid and d.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass
         cross join pg_catalog.regexp_split_to_table(
                        pg_catalog.substring(d.description, '\[([a-z, ]+)\]$'), ', *') as role
         where p.pronamespace = 'saga'::pg_catalog.regnamespace
    loop
        execute pg_catalog.format('grant execute on function %s to %I', r.name, 'saga_' || r.role);
    end loop;
end
$$;

-- Tenants. Each table that has a run_id shows the runs of the tenants that the caller sees. The
-- policies hold for saga_views, who owns what readers read and no table; they cost the daemon's own
-- functions nothing.
grant select on all tables in schema saga to saga_views;

do $$
declare
    r record;
    v_seen constant text := '(select saga.tenants_seen()) is null or ';
    v_run text;
begin
    for r in
        select c.oid::pg_catalog.regclass as name, c.relname,
               exists (select from pg_catalog.pg_attribute s
                        where s.attrelid = c.oid and s.attname = 'shard') as has_shard
          from pg_catalog.pg_class c
          join pg_catalog.pg_attribute a on a.attrelid = c.oid
         where c.relnamespace = 'saga'::pg_catalog.regnamespace and c.relkind in ('r', 'p')
           and a.attname = 'run_id' and not a.attisdropped
    loop
        v_run := pg_catalog.format('(select true from saga.run_key k where k.shard = %2$s and '
                                   'k.run_id = %1$s.run_id)', r.relname,
                                   case when r.has_shard then r.relname || '.shard'
                                        else 'saga.shard_of(' || r.relname || '.run_id)' end);
        v_run := case r.relname
            when 'run_key' then 'tenant = any ((select saga.tenants_seen())::text[])'
            -- A start says itself whose it is: its id may be taken by another tenant's run.
            when 'inbox' then 'case kind when ''start'' then body ->> ''tenant'' = any ((select '
                              'saga.tenants_seen())::text[]) else ' || v_run || ' end'
            else v_run end;
        execute pg_catalog.format('alter table %s enable row level security', r.name);
        execute pg_catalog.format('drop policy if exists tenant on %s', r.name);
        execute pg_catalog.format('create policy tenant on %s for select to saga_views using (%s)',
                                  r.name, v_seen || v_run);
    end loop;

    -- An owner needs the right to create where its objects are, in the moment that it gets them.
    grant create on schema saga to saga_views;
    for r in
        select pg_catalog.format('view %s', c.oid::pg_catalog.regclass) as what
          from pg_catalog.pg_class c
         where c.relnamespace = 'saga'::pg_catalog.regnamespace and c.relkind = 'v'
           and c.relname !~ '^run_image_'
        union all
        select pg_catalog.format('function %s', p.oid::pg_catalog.regprocedure)
          from pg_catalog.pg_proc p
          join pg_catalog.pg_description d
            on d.objoid = p.oid and d.classoid = 'pg_catalog.pg_proc'::pg_catalog.regclass
         where p.pronamespace = 'saga'::pg_catalog.regnamespace and p.prosecdef
           and d.description ~ '\[[a-z, ]*reader[a-z, ]*\]$'
           and p.proname <> 'tenants_seen'
    loop
        execute pg_catalog.format('alter %s owner to saga_views', r.what);
    end loop;
    revoke create on schema saga from saga_views;
end
$$;

grant usage on schema saga to saga_views, saga_engine, saga_operator, saga_reader, saga_submit, saga_action;
