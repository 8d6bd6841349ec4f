/*
 * http_text.h: the rules of HTTP texts that invoke_http applies, without any I/O.
 *
 * Nothing of a request is trusted: templates put values of users into paths and headers. What
 * could change the meaning of a request is refused before anything connects; the words of a
 * refusal name the place, never the value.
 */
#ifndef ENGINE_HTTP_TEXT_H
#define ENGINE_HTTP_TEXT_H

#include "engine/request.h"

/* Longer values are refused by most servers, and after they were sent. */
#define HTTP_HEADER_VALUE_BYTES_MAX (16 * 1024)
#define HTTP_TARGET_BYTES_MAX (16 * 1024)

/* Each returns NULL if all is well, else what is wrong, to be put behind the name of the place. */
const char *http_header_problem(struct str name, struct str value);
/* Path and query: "/" first, percent-encoded, no segment that is "." or "..", no fragment. */
const char *http_target_problem(struct str target);
/* A base URL: http or https, a host, perhaps a port and a path; no user, query or fragment. */
const char *http_url_problem(struct str url);

/* Takes a whole URL apart: the base URL of its host, and path and query, "/" if it has none. */
void http_url_split(const char *url, struct arena *arena, const char **base, struct str *target);

struct str http_base64(struct str data, struct arena *arena);

/* Splits the head of an answer (status line first) into pairs with lower-case names. Values are
 * made safe to store: bytes that are not visible ASCII, space or well-formed UTF-8 become "?". */
struct request_pair *http_head_parse(struct str head, struct arena *arena, uint16_t *count);
/* STR_NONE if there is no such header; the first if there are several. `name` in lower case. */
struct str http_header_get(const struct request_pair *headers, uint16_t count, const char *name);

/* The body as UTF-8 text without NUL and byte order mark. ISO-8859-1 is converted if the headers
 * say so; absent: it is no such text, over BODY_BYTES_MAX, or compressed. */
struct str http_body_text(struct str body, const struct request_pair *headers, uint16_t count,
                          struct arena *arena);

#endif
