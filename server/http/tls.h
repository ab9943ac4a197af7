/* tls: the certificate and the private key for encrypted connections. libmicrohttpd does the encryption, with GnuTLS.
 * The files may be read again while the daemon serves. A handshake in progress keeps the certificate with which it
 * began. Open connections stay open. */
#ifndef SERVER_TLS_H
#define SERVER_TLS_H

#include "config/config.h"

#include <microhttpd.h>
#include <sys/types.h>

struct tls;
struct tls_handshake;

/* Reads the two PEM files. The first file contains the certificate of the server, followed by the intermediate
 * certificates. Refuses a certificate that has expired or is not valid yet, and a key that does not belong to the
 * certificate. Warns in the log if other users may read the key. After success the caller must call tls_close. */
int tls_open(const char *certificate_path, const char *key_path, struct tls **tls, struct error *error);
void tls_close(struct tls *tls); /* call it when no connection is open. NULL is harmless */

/* Reads new files, which may have other paths than before. On failure, the old certificate stays in use. Any thread may
 * call tls_reload. */
int tls_reload(struct tls *tls, const char *certificate_path, const char *key_path, struct error *error);

/* The earliest time at which a certificate of the chain expires, in seconds since 1970. */
int64_t tls_end_s(struct tls *tls);

/* Sets the certificate for the handshakes on the calling thread. It is stored for each thread, because libmicrohttpd's
 * callback for certificates has no argument for a context. */
void tls_use_on_thread(struct tls *tls);

/* Options for MHD_start_daemon, ended by MHD_OPTION_END. The daemon also needs the flag MHD_USE_TLS. */
const struct MHD_OptionItem *tls_daemon_options(void);

/* These functions count the handshakes of an event loop that are in progress. tls_handshake_begin adds 1 to *pending
 * for a new connection. The end of the handshake subtracts 1. The result must be passed to tls_handshake_forget when
 * the connection is closed. If memory is lacking, returns NULL and counts nothing. */
struct tls_handshake *tls_handshake_begin(struct MHD_Connection *connection, int *pending);
void tls_handshake_forget(struct tls_handshake *handshake); /* NULL is harmless */

bool tls_encrypts(struct MHD_Connection *connection);

/* Sends bytes on an encrypted connection directly, not through libmicrohttpd. Call it on the event loop of the
 * connection. */
ssize_t tls_send(struct MHD_Connection *connection, const void *bytes, size_t length);

#endif
