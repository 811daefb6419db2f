/* Alexa between its two files: the conversation (alexa.c) and the proof that a request is Amazon's (alexa_verify.c).
 * Source: "Host a Custom Skill as a Web Service", Amazon's developer documentation. */
#ifndef CHANNELS_ALEXA_H
#define CHANNELS_ALEXA_H

#include "http/request.h"

/* Calls on_checked on the request's loop, once, at once or later: LU_OK, LU_MALFORMED_REQUEST with a sentence, or
 * LU_OVERLOADED while the certificate cannot be fetched. With --no-alexa-verify always LU_OK. */
void alexa_verify(struct request *request,
                  void (*on_checked)(struct request *request, enum lu_error error, const char *why));

/* --- its parts, for tests ----------------------------------------------------------------------------------------- */
/* https, s3.amazonaws.com, port 443 or none, a normalised path below /echo.api/. In *ret_url it has one spelling. */
#define ALEXA_URL_BYTES_MAX 512
bool alexa_url_read(struct text url, char ret_url[ALEXA_URL_BYTES_MAX]);
/* The chain in PEM, leaf first: valid now, for echo-api.amazon.com, up to a root of `roots` (NULL: the system's). On
 * success the leaf's key in *ret_key, to be freed with EVP_PKEY_free(). */
struct evp_pkey_st;
struct x509_store_st;
bool alexa_chain_check(struct text pem, int64_t now_s, struct x509_store_st *roots, struct evp_pkey_st **ret_key);
/* RSA with SHA-256 over the body; `signature` in base64. */
bool alexa_signature_check(struct evp_pkey_st *key, struct text body, struct text signature);

#endif
