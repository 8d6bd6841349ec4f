/*
 * services.h: the `services` map of the daemon's configuration, in the language of workflows.
 */
#ifndef DSL_SERVICES_H
#define DSL_SERVICES_H

#include "dsl/doc.h"
#include "dsl/plan.h"

/* Compiles a map of services into `arena`, which must live as long as the result is used
 * (dsl_compile copies what it takes). `doc` is the loaded configuration file and `node` its map.
 * Returns false if there was an error; everything is diagnosed. */
bool dsl_services_compile(struct doc *doc, const struct node *node, struct arena *arena,
                          struct diags *diags, const struct plan_service **out, uint16_t *count);

#endif
