/* certificate: makes certificates for tests. Any failure of these functions fails the running test. */
#ifndef TESTS_HTTP_CERTIFICATE_H
#define TESTS_HTTP_CERTIFICATE_H

/* Writes a new self-signed certificate for 127.0.0.1, and its private key, as PEM files. The certificate is valid from
 * `first_day` to `last_day`. Both are numbers of days from today, negative for the past. A file whose path is NULL is
 * not written. */
void certificate_write(const char *certificate_path, const char *key_path, int first_day, int last_day);

#endif
