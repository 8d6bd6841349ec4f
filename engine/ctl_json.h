/*
 * ctl_json.h: the daemon's JSON, shown token by token as it was sent.
 *
 * Laying out works on the text, not on a tree: digits, spelling of strings, order of members and
 * members that occur twice come out as they came in, at any depth.
 */
#ifndef ENGINE_CTL_JSON_H
#define ENGINE_CTL_JSON_H

#include "engine/ctl_core.h"

/* Parses what will be read. Containers nested deeper than the parser goes (a payload may be as
 * deep as it may be, and stands inside an answer) are replaced by a text that says so. */
MUST_USE int ctl_json_parse(struct str text, struct arena *arena, const struct json **out,
                            struct err *err);

/* Both take valid JSON; a newline is added at the end. */
void ctl_json_pretty(struct str text, struct buf *out);
void ctl_json_compact(struct str text, struct buf *out);

/* The text of a member of the outermost object; absent if there is none. */
struct str ctl_json_member(struct str text, const char *name);
/* Takes the next item off a list's text: start with the whole list. Absent at the end. */
struct str ctl_json_next_item(struct str *rest);

#endif
