/* tls: a lock guards the pair of certificate and key. Each handshake uses its own copy of the pair, which GnuTLS frees
 * after the handshake. So the pair can be replaced at any time. A copy takes some ten microseconds, a handshake several
 * hundred. */
#include "server/http/tls.h"

#include "server/common/log.h"
#include "server/common/secret.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_LIMIT_BYTES (1 << 20)
#define KEY_ID_BYTES 64

/* TLS 1.2 and 1.3, with GnuTLS's usual ciphers. Among the ciphers that both sides support, the server's order of
 * preference decides. */
#define PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:%SERVER_PRECEDENCE"

/* A certificate chain and the private key of its first certificate. A zeroed struct contains no pair. */
struct pair {
    gnutls_x509_crt_t *chain; /* an array of `count` certificates. The first one is the server's, the others are
                                 intermediate certificates */
    unsigned int count;
    gnutls_x509_privkey_t key;
};

struct tls {
    pthread_mutex_t lock; /* guards the pair */
    struct pair pair;
};

static _Thread_local struct tls *of_thread;

static void pair_free(struct pair *pair)
{
    for (unsigned int i = 0; i < pair->count; i++)
        gnutls_x509_crt_deinit(pair->chain[i]);
    gnutls_free(pair->chain);
    if (pair->key)
        gnutls_x509_privkey_deinit(pair->key);
    *pair = (struct pair){0};
}

/* ---- Reading ---- */

static int read_chain(const char *path, struct pair *pair, struct error *error)
{
    size_t length = 0;
    char *text = file_read(path, FILE_LIMIT_BYTES, &length, error);
    if (!text)
        return -1;
    const gnutls_datum_t datum = {.data = (unsigned char *)text, .size = (unsigned int)length};
    int status = gnutls_x509_crt_list_import2(&pair->chain, &pair->count, &datum, GNUTLS_X509_FMT_PEM,
                                              GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    free(text);
    if (status == GNUTLS_E_CERTIFICATE_LIST_UNSORTED)
        return error_set(error, "%s: each certificate must be followed by the one that signed it", path);
    if (status < 0 || pair->count == 0)
        return error_set(error, "%s: certificates in PEM format were expected: %s", path, gnutls_strerror(status));
    return 0;
}

static int read_key(const char *path, struct pair *pair, struct error *error)
{
    size_t length = 0;
    char *text = secret_read(path, FILE_LIMIT_BYTES, &length, error);
    if (!text)
        return -1;
    const gnutls_datum_t datum = {.data = (unsigned char *)text, .size = (unsigned int)length};
    int status = gnutls_x509_privkey_init(&pair->key);
    if (status == 0)
        status = gnutls_x509_privkey_import2(pair->key, &datum, GNUTLS_X509_FMT_PEM, NULL, 0);
    secret_free(text, length);
    if (status == GNUTLS_E_DECRYPTION_FAILED)
        return error_set(error, "%s: the private key is encrypted, one without a password was expected", path);
    if (status != 0)
        return error_set(error, "%s: a private key in PEM format was expected: %s", path, gnutls_strerror(status));
    return 0;
}

static void write_day(time_t time, char day[16])
{
    struct tm parts;
    gmtime_r(&time, &parts);
    strftime(day, 16, "%Y-%m-%d", &parts);
}

static int check_dates(const char *path, const struct pair *pair, struct error *error)
{
    time_t now = time(NULL);
    char day[16];
    for (unsigned int i = 0; i < pair->count; i++) {
        time_t first = gnutls_x509_crt_get_activation_time(pair->chain[i]);
        time_t last = gnutls_x509_crt_get_expiration_time(pair->chain[i]);
        write_day(now > last ? last : first, day);
        if (now > last)
            return error_set(error, "%s: certificate %u has expired on %s", path, i + 1, day);
        if (now < first)
            return error_set(error, "%s: certificate %u is not valid before %s", path, i + 1, day);
    }
    return 0;
}

static int check_match(const char *certificate_path, const char *key_path, const struct pair *pair, struct error *error)
{
    unsigned char of_certificate[KEY_ID_BYTES], of_key[KEY_ID_BYTES];
    size_t certificate_length = sizeof of_certificate, key_length = sizeof of_key;
    if (gnutls_x509_crt_get_key_id(pair->chain[0], 0, of_certificate, &certificate_length) != 0 ||
        gnutls_x509_privkey_get_key_id(pair->key, 0, of_key, &key_length) != 0 || certificate_length != key_length ||
        memcmp(of_certificate, of_key, key_length) != 0)
        return error_set(error, "%s: the key does not belong to the certificate in %s", key_path, certificate_path);
    return 0;
}

static void log_loaded(const char *path, const struct pair *pair)
{
    char subject[256] = "", day[16];
    size_t length = sizeof subject;
    gnutls_x509_crt_get_dn(pair->chain[0], subject, &length);
    write_day(gnutls_x509_crt_get_expiration_time(pair->chain[0]), day);
    log_write(LOG_LEVEL_INFO, "certificate loaded", "file", path, "subject", subject, "expires", day, NULL);
}

static int pair_read(const char *certificate_path, const char *key_path, struct pair *pair, struct error *error)
{
    *pair = (struct pair){0};
    if (read_chain(certificate_path, pair, error) == 0 && read_key(key_path, pair, error) == 0 &&
        check_dates(certificate_path, pair, error) == 0 && check_match(certificate_path, key_path, pair, error) == 0) {
        log_loaded(certificate_path, pair);
        return 0;
    }
    pair_free(pair);
    return -1;
}

/* ---- Handshakes ---- */

/* Copies the pair for one handshake. The lock is held. Returns 0, or -1 if memory is lacking. */
static int copy_pair(const struct pair *pair, gnutls_pcert_st **certificates, gnutls_privkey_t *key)
{
    unsigned int copied = 0;
    gnutls_pcert_st *list = gnutls_calloc(pair->count, sizeof *list);
    if (!list)
        return -1;
    while (copied < pair->count && gnutls_pcert_import_x509(&list[copied], pair->chain[copied], 0) == 0)
        copied++;
    *key = NULL;
    if (copied == pair->count && gnutls_privkey_init(key) == 0) {
        if (gnutls_privkey_import_x509(*key, pair->key, GNUTLS_PRIVKEY_IMPORT_COPY) == 0) {
            *certificates = list;
            return 0;
        }
        gnutls_privkey_deinit(*key);
    }
    while (copied > 0)
        gnutls_pcert_deinit(&list[--copied]);
    gnutls_free(list);
    return -1;
}

/* GnuTLS calls this function in each handshake to get the certificate (gnutls_certificate_retrieve_function3). */
static int retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **certificates,
                    unsigned int *count, gnutls_ocsp_data_st **ocsp, unsigned int *ocsp_count, gnutls_privkey_t *key,
                    unsigned int *flags)
{
    struct tls *tls = of_thread;
    (void)session;
    (void)info;
    *ocsp = NULL;
    *ocsp_count = 0;
    *flags = GNUTLS_CERT_RETR_DEINIT_ALL;
    pthread_mutex_lock(&tls->lock);
    int status = copy_pair(&tls->pair, certificates, key);
    *count = status == 0 ? tls->pair.count : 0;
    pthread_mutex_unlock(&tls->lock);
    return status;
}

struct tls_handshake {
    int *pending; /* the counter of handshakes in progress. NULL when this handshake has ended */
};

static void handshake_end(struct tls_handshake *handshake)
{
    if (handshake->pending)
        --*handshake->pending;
    handshake->pending = NULL;
}

/* GnuTLS calls this function for each message Finished. The client's Finished is the last message that the server must
 * receive in a handshake. */
static int finished(gnutls_session_t session, unsigned int type, unsigned int when, unsigned int incoming,
                    const gnutls_datum_t *message)
{
    (void)type;
    (void)when;
    (void)message;
    if (incoming)
        handshake_end(gnutls_db_get_ptr(session));
    return 0;
}

/* The handshake is stored in the pointer to GnuTLS's session database, because libmicrohttpd uses no such database. */
struct tls_handshake *tls_handshake_begin(struct MHD_Connection *connection, int *pending)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    struct tls_handshake *handshake = info ? calloc(1, sizeof *handshake) : NULL;
    if (!handshake)
        return NULL;
    handshake->pending = pending;
    ++*pending;
    gnutls_db_set_ptr((gnutls_session_t)info->tls_session, handshake);
    gnutls_handshake_set_hook_function((gnutls_session_t)info->tls_session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST,
                                       finished);
    return handshake;
}

void tls_handshake_forget(struct tls_handshake *handshake)
{
    if (handshake)
        handshake_end(handshake);
    free(handshake);
}

void tls_use_on_thread(struct tls *tls)
{
    of_thread = tls;
}

const struct MHD_OptionItem *tls_daemon_options(void)
{
    static const struct MHD_OptionItem options[] = {
        {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)retrieve},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)PRIORITIES},
        {MHD_OPTION_END, 0, NULL},
    };
    return options;
}

bool tls_encrypts(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION) != NULL;
}

ssize_t tls_send(struct MHD_Connection *connection, const void *bytes, size_t length)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info ? gnutls_record_send((gnutls_session_t)info->tls_session, bytes, length) : -1;
}

/* ---- Opening and closing ---- */

int tls_open(const char *certificate_path, const char *key_path, struct tls **opened, struct error *error)
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls)
        return error_set(error, "out of memory");
    if (MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) != MHD_YES) {
        free(tls);
        return error_set(error, "--tls-certificate: this libmicrohttpd was built without TLS");
    }
    if (pair_read(certificate_path, key_path, &tls->pair, error) != 0) {
        free(tls);
        return -1;
    }
    pthread_mutex_init(&tls->lock, NULL);
    *opened = tls;
    return 0;
}

int tls_reload(struct tls *tls, const char *certificate_path, const char *key_path, struct error *error)
{
    struct pair pair;
    if (pair_read(certificate_path, key_path, &pair, error) != 0)
        return -1;
    pthread_mutex_lock(&tls->lock);
    struct pair old = tls->pair;
    tls->pair = pair;
    pthread_mutex_unlock(&tls->lock);
    pair_free(&old);
    return 0;
}

int64_t tls_end_s(struct tls *tls)
{
    int64_t end = INT64_MAX;
    pthread_mutex_lock(&tls->lock);
    for (unsigned int i = 0; i < tls->pair.count; i++) {
        int64_t here = gnutls_x509_crt_get_expiration_time(tls->pair.chain[i]);
        end = here < end ? here : end;
    }
    pthread_mutex_unlock(&tls->lock);
    return end;
}

void tls_close(struct tls *tls)
{
    if (!tls)
        return;
    pair_free(&tls->pair);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}
