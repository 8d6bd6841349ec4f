-- Nothing is granted to PUBLIC, whatever the database's defaults say; what saga_guard.allow has
-- granted stays.
revoke all on all tables in schema saga_guard from public;
revoke all on all functions in schema saga_guard from public;
