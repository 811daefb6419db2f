/* Where a webhook may be sent: an http or https address, and no host inside the operator's own network.
 *
 * The name is checked when a webhook is made, the address when it is connected to: what a name resolves to may change in
 * between. Thread: any; pure.
 */
#ifndef CHANNELS_WEBHOOK_ADDRESS_H
#define CHANNELS_WEBHOOK_ADDRESS_H

#include <sys/socket.h>

#include "lastunit/error.h"
#include "lastunit/types.h"

/* False for loopback, private, link-local, shared, multicast, reserved and unspecified addresses (RFC 6890), also where
 * an IPv4 address is written as IPv6; and for whatever is neither. */
bool webhook_address_is_public(const struct sockaddr *address);
/* NULL if this URL may be stored; else a sentence that names the fault. private_allowed: the switch of the operator. */
const char *webhook_url_flaw(const char *url, bool private_allowed);

#endif
