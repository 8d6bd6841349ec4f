/*
 * invoke_oauth.h: access tokens for services with `auth: {oauth2}` (RFC 6749, section 4.4: client
 * credentials), in front of the HTTP invoker.
 *
 * What it guarantees:
 *
 *  - A token is asked for once, however many invocations need it, kept until it expires (as long as
 *    its `expires_in` says, less a margin; TOKEN_LIFE_US without), and added to the secrets, so
 * that an answer that echoes it does not keep it.
 *  - A 401 makes the token void: the invocation is sent once more with a fresh one, as the same
 *    attempt, because a request that was not let in has done nothing. A second 401 is the answer.
 *  - Without a token nothing is sent: REPLY_NOT_CONNECTED, so that a token server that is away, or
 *    credentials that have to be put right, cost the step's retries and budget and not the run.
 *  - The invocation's time limit includes the wait for the token.
 */
#ifndef ENGINE_INVOKE_OAUTH_H
#define ENGINE_INVOKE_OAUTH_H

#include "engine/loop.h"
#include "engine/port.h"
#include "engine/secrets.h"

#define TOKEN_LIFE_US (5 * MINUTE_US)

struct invoke_oauth_options {
    struct loop *loop;
    struct secrets *secrets;        /* NULL: no secret is known; tokens are added */
    const struct port_invoke *http; /* borrowed for life; its replies go to invoke_oauth_reply */
    void (*reply)(void *arg, uint64_t invocation_id, const struct reply *reply);
    void *reply_arg;
};

struct invoke_oauth;

struct invoke_oauth *invoke_oauth_new(const struct invoke_oauth_options *options); /* copied */
void invoke_oauth_free(struct invoke_oauth *oauth); /* NULL is allowed; the http port outlives it */

/* For ACTION_HTTP; what needs no token passes through. */
const struct port_invoke *invoke_oauth_port(struct invoke_oauth *oauth);
void invoke_oauth_reply(void *oauth, uint64_t invocation_id, const struct reply *reply);

#endif
