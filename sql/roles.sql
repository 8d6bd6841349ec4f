-- The roles of an installation. Runs first, as the role that migrates; changes nothing that is
-- already right. Roles belong to the whole cluster, so another database may create them at the
-- same moment: losing that race is fine.
--
--   saga_admin     owns the schema and everything in it; migrates
--   saga_engine    the daemon: calls the _v1 functions, reads the views
--   saga_operator  people: verbs, starts, views
--   saga_reader    views only
--   saga_submit    saga.start() only
--   saga_views     owns the views and what readers call, and no table: the policies of the tables,
--                  which keep tenants apart, hold for it. Nobody is to be a member of it
--   saga_action    runs the SQL actions of workflows; may call saga.apply_or_raise_v1 and nothing
--                  else here: grant it what your own actions need
do $$
declare
    r record;
begin
    for r in
        select *
          from (values ('saga_admin', false), ('saga_engine', true), ('saga_operator', false),
                       ('saga_reader', false), ('saga_submit', false), ('saga_views', false),
                       ('saga_action', true))
               as wanted (role, may_log_in)
    loop
        if not exists (select from pg_catalog.pg_roles where rolname = r.role) then
            begin
                execute pg_catalog.format('create role %I %s', r.role,
                                          case when r.may_log_in then 'login' else 'nologin' end);
            exception
                when duplicate_object or unique_violation then null;
                when insufficient_privilege then
                    raise exception 'role "%" does not exist and cannot be created', r.role
                        using errcode = 'insufficient_privilege',
                              hint = 'run "sagad migrate" once as a role with CREATEROLE, or '
                                     'create the roles saga_admin, saga_engine (login), '
                                     'saga_operator, saga_reader, saga_submit, saga_views and '
                                     'saga_action (login) by hand';
            end;
        end if;
    end loop;

    for r in
        select *
          from (values ('saga_reader', 'saga_operator'), ('saga_submit', 'saga_operator'),
                       ('saga_reader', 'saga_engine'), ('saga_operator', 'saga_admin'),
                       ('saga_reader', 'saga_views'), ('saga_views', 'saga_admin'))
               as wanted (role, member)
    loop
        if not pg_catalog.pg_has_role(r.member, r.role, 'member') then
            begin
                execute pg_catalog.format('grant %I to %I', r.role, r.member);
            exception
                when duplicate_object or unique_violation then null;
            end;
        end if;
    end loop;

    if not pg_catalog.pg_has_role(current_user, 'saga_admin', 'member') then
        begin
            execute pg_catalog.format('grant saga_admin to %I', current_user);
        exception
            when insufficient_privilege then
                raise exception 'role "%" is not a member of saga_admin', current_user
                    using errcode = 'insufficient_privilege',
                          hint = pg_catalog.format('run: grant saga_admin to %I', current_user);
        end;
    end if;
end
$$;
