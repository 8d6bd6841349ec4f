-- A time as the JSON interfaces write it: RFC 3339 in UTC, fractions only where there are any.
create or replace function saga.time_text(at timestamptz)
returns text
language sql stable strict parallel safe
return pg_catalog.to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS') ||
       case when pg_catalog.date_trunc('second', at) = at then ''
            else pg_catalog.to_char(at at time zone 'UTC', '.US') end || 'Z';
comment on function saga.time_text(timestamptz) is
    'A time in RFC 3339, UTC. [engine, operator, reader]';
