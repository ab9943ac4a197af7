/* peer: computes a number and a text for each client. */
#include "server/http/peer.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { MAPPED_AT = 12 /* offset of the IPv4 address in an IPv6 address such as ::ffff:192.0.2.1: its last 4 bytes */ };

uint64_t peer_of(const struct sockaddr *address)
{
    uint64_t peer = 0;
    if (address && address->sa_family == AF_INET) {
        memcpy(&peer, &((const struct sockaddr_in *)address)->sin_addr, 4);
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)address)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(ipv6);
        memcpy(&peer, ipv6->s6_addr + (mapped ? MAPPED_AT : 0), mapped ? 4 : 8);
    }
    return peer;
}

void peer_text(const struct sockaddr *address, char text[PEER_TEXT_BYTES])
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof host);
        snprintf(text, PEER_TEXT_BYTES, "%s:%d", host, ntohs(ipv4->sin_port));
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr);
        inet_ntop(mapped ? AF_INET : AF_INET6, ipv6->sin6_addr.s6_addr + (mapped ? MAPPED_AT : 0), host, sizeof host);
        snprintf(text, PEER_TEXT_BYTES, mapped ? "%s:%d" : "[%s]:%d", host, ntohs(ipv6->sin6_port));
    } else {
        snprintf(text, PEER_TEXT_BYTES, "%s", address && address->sa_family == AF_UNIX ? "unix" : "unknown");
    }
}
