/* peer: the client at the other end of a connection, as a number and as a text. */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define PEER_TEXT_BYTES (INET6_ADDRSTRLEN + sizeof "[]:65535")

/* A number for the client at an address, so that clients can take turns. All ports of an address have one number. NULL
 * or another family than IP: 0. An IPv6 client may choose the second half of its address, so only the first half
 * counts. An IPv4 address that came to [::] counts as IPv4. */
uint64_t peer_of(const struct sockaddr *address);

/* "192.0.2.1:40000", "[2001:db8::1]:40000", or "unknown" where peer_of is 0. */
void peer_text(const struct sockaddr *address, char text[PEER_TEXT_BYTES]);

#endif
