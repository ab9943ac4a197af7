/* peer: which client a connection is of, so that clients can take turns. */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <stdint.h>
#include <sys/socket.h>

/* A number for the client at an address; NULL or another family: 0. It is the same for all ports. Of an IPv6 address it
 * is the first half, for a client may choose the second half as it likes. An IPv4 address that came to [::] is IPv4. */
uint64_t peer_of(const struct sockaddr *address);

#endif
