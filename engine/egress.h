/*
 * egress.h: which addresses requests may go to.
 *
 * Workflows name services, and names are resolved by servers that are not ours: a name that was
 * good when it was declared may lead to the metadata service of a cloud or to this machine when it
 * is used (DNS rebinding). So what is judged is the address of each connection, before it is made:
 *
 *  1. Never: unspecified, link-local, multicast, broadcast and reserved addresses, and the metadata
 *     services of clouds. Nothing opens these.
 *  2. What the config says (`egress: {allow: [CIDR], deny: [CIDR]}`): the longest range that holds
 *     the address decides, `deny` between two of the same length. So `deny: [0.0.0.0/0, "::/0"]`
 *     with `allow: [203.0.113.0/24]` leaves only that network.
 *  3. Loopback and private addresses: only for a service whose URL says so itself, by such an
 *     address or by a name that public name servers do not hold: one without a dot, or one below
 *     localhost, local, internal, home.arpa, test or svc.
 *  4. Everything else may be connected to.
 *
 * libcurl is asked before it connects; libpq cannot be, so there the connection is judged when it
 * stands, before anything is sent on it.
 *
 * An IPv6 address that stands for an IPv4 one (mapped, compatible, NAT64, 6to4) is judged as that.
 */
#ifndef ENGINE_EGRESS_H
#define ENGINE_EGRESS_H

#include "engine/base/str.h"

#include <sys/socket.h>

/* An IPv4 range is kept as a range of mapped IPv6 addresses. */
struct egress_range {
    uint8_t address[16];
    uint8_t bits; /* of the prefix, 0 to 128 */
    bool deny;
};

struct egress { /* {0}: nothing is said */
    const struct egress_range *ranges;
    uint16_t count;
};

/* An address, or one with the length of a prefix behind a slash. `deny` is left alone.
 * NULL if all is well, else what is wrong with the text. */
const char *egress_range_parse(struct str text, struct egress_range *out);

/* `host`: of the service's URL, an IPv6 address with or without brackets.
 * NULL: the address may be connected to; else why not, to be put behind "is not allowed: ". */
const char *egress_problem(const struct egress *egress, struct str host,
                           const struct sockaddr *address);

/* True if the host is an address: looking it up again would give no other. */
bool egress_host_is_address(struct str host);

#endif
