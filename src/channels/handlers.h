/* The handlers of the channels' routes (the table is api/routes.c). */
#ifndef CHANNELS_HANDLERS_H
#define CHANNELS_HANDLERS_H

#include "http/request.h"

void feed_google_get(struct request *request); /* feeds.c */
void feed_local_get(struct request *request);
void mcp_post(struct request *request);      /* mcp.c */
void alexa_post(struct request *request);    /* alexa.c */
void twilio_post(struct request *request);   /* twilio.c */
void telegram_post(struct request *request); /* telegram.c */
void page_get(struct request *request);      /* page.c */
void page_file_get(struct request *request);
void page_keys_post(struct request *request);
void page_break_redis_post(struct request *request);
void page_naive_post(struct request *request); /* page_naive.c */
void shop_page_get(struct request *request);   /* shop_page.c */

#endif
