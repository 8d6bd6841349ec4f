/*
 * guard.h: the participant kit, SQL for a participant's own database: see sql/guard.
 */
#ifndef ENGINE_GUARD_H
#define ENGINE_GUARD_H

#include "engine/base/buf.h"

/* The script that installs it, in one transaction, to be read or run by psql. Running it again
 * changes nothing that is right already. */
void guard_print(struct buf *out);

#endif
