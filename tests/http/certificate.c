/* certificate: makes certificates with GnuTLS. */
#include "tests/http/certificate.h"

#include "tests/http/daemon.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <time.h>

enum { DAY_S = 86400 };

static void write_file(const char *path, const gnutls_datum_t *text)
{
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!path)
        return;
    assert_non_null(file);
    assert_int_equal(fwrite(text->data, 1, text->size, file), text->size);
    assert_int_equal(fclose(file), 0);
}

void certificate_write(const char *certificate_path, const char *key_path, int first_day, int last_day)
{
    static const unsigned char address[] = {127, 0, 0, 1};
    unsigned char serial[8];
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t text;
    time_t now = time(NULL);
    unsigned int bits = GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1);
    assert_int_equal(gnutls_rnd(GNUTLS_RND_NONCE, serial, sizeof serial), 0);
    serial[0] = 1; /* the serial number must not be 0 */
    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, bits, 0), 0);
    assert_int_equal(gnutls_x509_crt_init(&certificate), 0);
    assert_int_equal(gnutls_x509_crt_set_version(certificate, 3), 0);
    assert_int_equal(gnutls_x509_crt_set_key(certificate, key), 0);
    assert_int_equal(gnutls_x509_crt_set_serial(certificate, serial, sizeof serial), 0);
    assert_int_equal(gnutls_x509_crt_set_dn(certificate, "CN=test", NULL), 0);
    assert_int_equal(
        gnutls_x509_crt_set_subject_alt_name(certificate, GNUTLS_SAN_IPADDRESS, address, sizeof address, 0), 0);
    assert_int_equal(gnutls_x509_crt_set_activation_time(certificate, now + (time_t)first_day * DAY_S), 0);
    assert_int_equal(gnutls_x509_crt_set_expiration_time(certificate, now + (time_t)last_day * DAY_S), 0);
    assert_int_equal(gnutls_x509_crt_set_basic_constraints(certificate, 1, -1), 0);
    assert_int_equal(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), 0);
    assert_int_equal(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text), 0);
    write_file(certificate_path, &text);
    gnutls_free(text.data);
    assert_int_equal(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), 0);
    write_file(key_path, &text);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}
