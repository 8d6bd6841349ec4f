-- Ends the sessions of a daemon that was declared dead and still holds the row of a lane: no
-- setting of PostgreSQL frees what a half-delivered pipeline has locked. Runs as the caller, who
-- may end sessions of its own role. Answers how many were ended.
create or replace function saga.lane_kick_v1(p_application text)
returns integer
language sql volatile security invoker
set search_path = pg_catalog, pg_temp
as $$
    select count(*)::integer
      from (select pg_terminate_backend(a.pid) as ended
              from pg_stat_activity a
             where starts_with(a.application_name, p_application) and a.usename = session_user
               and a.datname = current_database() and a.pid <> pg_backend_pid()
            offset 0) x
     where x.ended;
$$;
comment on function saga.lane_kick_v1(text) is
    'Ends the sessions of a daemon that holds a lane though it is dead. [engine]';
