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

grant usage on schema saga to saga_engine, saga_operator, saga_reader, saga_submit, saga_action;
