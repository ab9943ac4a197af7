/* peer: the client at the other end of a connection, as a number and as a text. */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PEER_TEXT_BYTES (INET6_ADDRSTRLEN + sizeof "[]:65535")

/* A number that identifies the client at an address, so that clients can be served in turn. The port does not change
 * the number. Of an IPv6 address only the first half counts, because a client may choose the second half freely. An
 * IPv4 client that connects to a socket on [::] gets the number of its IPv4 address. Returns 0 for NULL, and for an
 * address that is not IPv4 or IPv6. */
uint64_t peer_of(const struct sockaddr *address);

/* Writes the address as text: "192.0.2.1:40000", "[2001:db8::1]:40000", "unix" for any client of a Unix socket, or
 * "unknown". */
void peer_text(const struct sockaddr *address, char text[PEER_TEXT_BYTES]);

#endif
