#include "engine/guard.h"

#include "sql/bundle.h"

const char guard_look_sql[] =
    "select pg_catalog.has_schema_privilege(n.oid, 'usage')"
    "   and pg_catalog.bool_and(pg_catalog.has_function_privilege(p.oid, 'execute'))"
    "  from pg_catalog.pg_namespace n join pg_catalog.pg_proc p on p.pronamespace = n.oid"
    " where n.nspname = 'saga_guard' and (p.proname, p.proargtypes::pg_catalog.text)"
    "       in (('claim', '25 25 25 25'), ('done', '25 114 16'))" /* text, json, boolean */
    " group by n.oid having pg_catalog.count(*) = 2";
const char guard_claim_sql[] = "select verdict, answer from saga_guard.claim($1, $2, $3, $4)";
const char guard_done_sql[] = "select saga_guard.done($1, $2)";

enum guard_verdict guard_verdict_of(struct str name)
{
#define X(id, text)              \
    if (str_eq(name, STR(text))) \
        return id;
    GUARD_VERDICTS(X)
#undef X
    return GUARD_NONE;
}

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
