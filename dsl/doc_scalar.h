/*
 * doc_scalar.h: the loader's rules about scalars, keys and comments. Only doc.c includes it.
 */
#ifndef DSL_DOC_SCALAR_H
#define DSL_DOC_SCALAR_H

#include "dsl/doc.h"

/* Types a plain scalar that stands as a value; diagnoses one that YAML would type otherwise. */
void scalar_resolve_value(const struct doc *doc, struct diags *diags, const struct node *node);
/* False (and diagnosed) if the key cannot be one. */
bool scalar_check_key(const struct doc *doc, struct diags *diags, const struct node *key);
/* Duplicate keys, and values that a comma cut in two. */
void map_check(const struct doc *doc, struct diags *diags, struct node *map);
void list_check(const struct doc *doc, struct diags *diags, struct node *list);
/* Templates that `#` turned into a comment. Sorts nothing: needs `scalars` in source order. */
void comments_check(const struct doc *doc, struct diags *diags);
/* What may be meant by a line that is no YAML, or NULL. */
const char *scalar_syntax_help(struct str line);

#endif
