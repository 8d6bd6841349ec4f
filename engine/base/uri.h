/*
 * uri.h: percent-encoding (RFC 3986).
 */
#ifndef BASE_URI_H
#define BASE_URI_H

#include "engine/base/buf.h"

/* Everything but the unreserved characters is encoded, `/` too: a value stays one segment. */
void uri_encode(struct str text, struct buf *out);

#endif
