#include "engine/guard.h"

#include "sql/bundle.h"

void guard_print(struct buf *out)
{
    buf_add_z(out,
              "-- The participant kit of Saga, for the database of a service; the engine is not\n"
              "-- needed there. Run it as the owner of that database, once, or again at any time:\n"
              "-- psql -v ON_ERROR_STOP=1 -f FILE DATABASE\n\n"
              "begin;\n"
              "set local client_min_messages = warning;\n"
              "set local search_path = pg_catalog;\n"
              "select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('saga_guard'));\n\n");
    for (const struct sql_file *file = sql_guard; file->name; file++)
        buf_printf(out, "%s\n", file->text);
    buf_add_z(out, "commit;\n");
}
