/* peer: a number for each client. */
#include "server/http/peer.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

uint64_t peer_of(const struct sockaddr *address)
{
    uint64_t peer = 0;

    if (address && address->sa_family == AF_INET) {
        memcpy(&peer, &((const struct sockaddr_in *)address)->sin_addr, 4);
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(ipv6);

        memcpy(&peer, ipv6->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
    }
    return peer;
}
