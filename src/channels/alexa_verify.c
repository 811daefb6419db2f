/* The proof that a request is Amazon's: a certificate at an address of Amazon's, and a signature over the body by its key.
 *
 * Happy path: the chain's address is one we have fetched in the last day: its key is at hand. Otherwise a
 * thread fetches it, at most FETCHES_MAX at a time, and posts it back to the loop, where the chain is
 * checked and its key kept.
 * Failure modes: an address that is not Amazon's, a chain that does not lead to a root, a name that is not
 * echo-api.amazon.com, a time outside its validity, a signature that does not fit: LU_MALFORMED_REQUEST, because a skill is
 * certified only if it answers those with 400. A chain that cannot be fetched in 3 s, or too many at once: LU_OVERLOADED,
 * and Alexa asks again.
 */
#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/call.h"
#include "base/base64.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "channels/alexa.h"

#define HOST "s3.amazonaws.com"
#define FOLDER "/echo.api/"
#define NAME "echo-api.amazon.com"
#define FETCHES_MAX 4
#define CHAIN_BYTES_MAX (64 * 1024)
#define KEYS_MAX 8
#define KEEP_S 86400

/* --- the rules -------------------------------------------------------------------------------------------------------- */

/* One spelling: keys are kept by it, and whoever wrote the same address in ever new ways would push the real one out. */
bool alexa_url_read(struct text url, char ret_url[ALEXA_URL_BYTES_MAX])
{
	static const char scheme[] = "https://", port[] = ":443";
	size_t at = sizeof scheme - 1;
	if (url.size >= ALEXA_URL_BYTES_MAX || url.size < at || strncasecmp(url.data, scheme, at) != 0)
		return false;
	if (url.size - at < sizeof HOST - 1 || strncasecmp(url.data + at, HOST, sizeof HOST - 1) != 0)
		return false;
	at += sizeof HOST - 1;
	if (url.size - at >= sizeof port - 1 && memcmp(url.data + at, port, sizeof port - 1) == 0)
		at += sizeof port - 1;
	struct text path = {url.data + at, url.size - at};
	/* Nothing that a server or libcurl might normalise, and nothing but plain characters. */
	if (path.size <= sizeof FOLDER - 1 || memcmp(path.data, FOLDER, sizeof FOLDER - 1) != 0 ||
	    memmem(path.data, path.size, "..", 2) || memmem(path.data, path.size, "//", 2) ||
	    memmem(path.data, path.size, "/.", 2))
		return false;
	for (size_t i = 0; i < path.size; i++)
		if (path.data[i] <= ' ' || path.data[i] > '~' || strchr("%\\?#@", path.data[i]))
			return false;
	snprintf(ret_url, ALEXA_URL_BYTES_MAX, "https://" HOST "%.*s", (int)path.size, path.data);
	return true;
}

bool alexa_chain_check(struct text pem, int64_t now_s, X509_STORE *roots, EVP_PKEY **ret_key)
{
	if (!pem.size)
		return false; /* an answer without a body; OpenSSL makes no BIO of nothing */
	BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.size);
	STACK_OF(X509) *chain = sk_X509_new_null();
	X509_STORE *store = roots ? roots : X509_STORE_new();
	X509_STORE_CTX *context = X509_STORE_CTX_new();
	CHECK(bio && chain && store && context);
	X509 *leaf = PEM_read_bio_X509(bio, NULL, NULL, NULL);
	for (X509 *more; leaf && (more = PEM_read_bio_X509(bio, NULL, NULL, NULL));)
		CHECK(sk_X509_push(chain, more) > 0);
	bool ok = leaf && (roots || X509_STORE_set_default_paths(store)) &&
	          X509_STORE_CTX_init(context, store, leaf, chain);
	if (ok) {
		X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context), (time_t)now_s);
		ok = X509_verify_cert(context) == 1 && X509_check_host(leaf, NAME, sizeof NAME - 1, 0, NULL) == 1;
	}
	if (ok) {
		*ret_key = X509_get_pubkey(leaf);
		ok = *ret_key != NULL;
	}
	X509_STORE_CTX_free(context);
	if (!roots)
		X509_STORE_free(store);
	sk_X509_pop_free(chain, X509_free);
	X509_free(leaf);
	BIO_free(bio);
	return ok;
}

bool alexa_signature_check(EVP_PKEY *key, struct text body, struct text signature)
{
	unsigned char raw[1024];
	size_t size;
	if (!base64_decode(signature, raw, sizeof raw, &size) || !size)
		return false;
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	CHECK(context);
	bool ok = EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
	          EVP_DigestVerify(context, raw, size, (const unsigned char *)body.data, body.size) == 1;
	EVP_MD_CTX_free(context);
	return ok;
}

/* --- keys that were fetched ------------------------------------------------------------------------------------------- */

static struct {
	pthread_mutex_t lock;
	struct {
		char url[ALEXA_URL_BYTES_MAX];
		EVP_PKEY *key;
		int64_t until_s;
	} rows[KEYS_MAX];
	size_t next; /* the one to go */
} keys = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A reference of the caller's, or NULL. */
static EVP_PKEY *key_find(const char *url, int64_t now_s)
{
	EVP_PKEY *key = NULL;
	pthread_mutex_lock(&keys.lock);
	for (size_t i = 0; i < KEYS_MAX && !key; i++)
		if (keys.rows[i].key && keys.rows[i].until_s > now_s && strcmp(keys.rows[i].url, url) == 0) {
			key = keys.rows[i].key;
			EVP_PKEY_up_ref(key);
		}
	pthread_mutex_unlock(&keys.lock);
	return key;
}

static void key_keep(const char *url, EVP_PKEY *key, int64_t now_s)
{
	pthread_mutex_lock(&keys.lock);
	EVP_PKEY_up_ref(key);
	EVP_PKEY_free(keys.rows[keys.next].key);
	keys.rows[keys.next].key = key;
	keys.rows[keys.next].until_s = now_s + KEEP_S;
	strcpy(keys.rows[keys.next].url, url);
	keys.next = (keys.next + 1) % KEYS_MAX;
	pthread_mutex_unlock(&keys.lock);
}

/* --- fetching --------------------------------------------------------------------------------------------------------- */

struct fetch {
	struct mailbox_item item;
	struct mailbox *mailbox;
	pthread_t thread;
	struct request *request;
	void (*on_checked)(struct request *request, enum lu_error error, const char *why);
	char url[ALEXA_URL_BYTES_MAX];
	long timeout_ms;
	struct buffer pem;
	bool fetched;
};

static _Atomic int fetching;

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
	struct fetch *fetch = context;
	if (fetch->pem.size + size * count > CHAIN_BYTES_MAX)
		return 0;
	buffer_add(&fetch->pem, bytes, size * count);
	return size * count;
}

static void *fetch_run(void *context)
{
	struct fetch *fetch = context;
	CURL *curl = curl_easy_init();
	if (curl) {
		curl_easy_setopt(curl, CURLOPT_URL, fetch->url);
		curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https");
		curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, fetch->timeout_ms);
		curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
		curl_easy_setopt(curl, CURLOPT_QUICK_EXIT, 1L); /* a name that is not resolved is not waited for */
		curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
		curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
		curl_easy_setopt(curl, CURLOPT_WRITEDATA, fetch);
		fetch->fetched = curl_easy_perform(curl) == CURLE_OK;
		curl_easy_cleanup(curl);
	}
	mailbox_post(fetch->mailbox, &fetch->item);
	return NULL;
}

static void check_signature(struct request *request, EVP_PKEY *key,
                            void (*on_checked)(struct request *, enum lu_error, const char *))
{
	struct text signature;
	bool ok = request_header(request, "Signature-256", &signature) &&
	          alexa_signature_check(key, request_body(request), signature);
	EVP_PKEY_free(key);
	on_checked(request, ok ? LU_OK : LU_MALFORMED_REQUEST, "Signature-256 does not fit the body and its certificate.");
}

/* On the loop. */
static void on_fetched(struct mailbox_item *item)
{
	struct fetch *fetch = (struct fetch *)item; /* its first member */
	int64_t now_s = clock_unix_us() / 1000000;
	EVP_PKEY *key;
	pthread_join(fetch->thread, NULL); /* it has nothing left to do */
	fetching--;
	bool good = fetch->fetched && alexa_chain_check(buffer_text(&fetch->pem), now_s, NULL, &key);
	buffer_done(&fetch->pem);
	if (good) {
		key_keep(fetch->url, key, now_s);
		check_signature(fetch->request, key, fetch->on_checked);
	} else if (fetch->fetched) {
		fetch->on_checked(fetch->request, LU_MALFORMED_REQUEST, "The certificate is not a valid one of Alexa's.");
	} else {
		fetch->on_checked(fetch->request, LU_OVERLOADED, "Alexa's certificate cannot be fetched just now.");
	}
}

void alexa_verify(struct request *request,
                  void (*on_checked)(struct request *request, enum lu_error error, const char *why))
{
	struct text url;
	struct fetch *fetch = ARENA_NEW(request_arena(request), struct fetch);
	if (!loop_of(request)->config->alexa_verify) {
		on_checked(request, LU_OK, "");
		return;
	}
	if (!request_header(request, "SignatureCertChainUrl", &url) || !alexa_url_read(url, fetch->url)) {
		on_checked(request, LU_MALFORMED_REQUEST, "SignatureCertChainUrl is not an address of Alexa's certificates.");
		return;
	}
	EVP_PKEY *key = key_find(fetch->url, clock_unix_us() / 1000000);
	if (key) {
		check_signature(request, key, on_checked);
		return;
	}
	fetch->item.deliver = on_fetched;
	fetch->mailbox = server_loop_mailbox(request_loop(request));
	fetch->request = request;
	fetch->timeout_ms = deadline_left_ms(request_deadline_ns(request)) / 2 + 1; /* 0 is none */
	fetch->on_checked = on_checked;
	if (fetching++ >= FETCHES_MAX || pthread_create(&fetch->thread, NULL, fetch_run, fetch) != 0) {
		fetching--;
		on_checked(request, LU_OVERLOADED, "Too many of Alexa's certificates are being fetched.");
	}
}
