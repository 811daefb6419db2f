/* A product's page: `GET /shop/{sku}`, for whoever sells without a site of his own, and as an example
 * for those who have one.
 *
 * Happy path: the product from the primary, rendered with its figures as of now, and as JSON-LD for search engines; with
 * --shop-key the page goes on from there by itself, over /v1/events. The ETag is that of its bytes.
 * Failure modes: its reader is a shopper, so what fails is a page, too: an unknown SKU, or what can be none, with 404;
 * PostgreSQL away with 503. A shop key that was revoked makes the page a plain one. A query is passed over: whoever sends a
 * link about (a newsletter, a social network) adds parameters of his own to it.
 */
#include <string.h>

#include "base/markup.h"
#include "base/text.h"
#include "channels/handlers.h"
#include "channels/origin.h"
#include "channels/page.h"
#include "channels/phrase.h"
#include "channels/turn.h"
#include "http/auth.h"

struct shop_page {
	struct turn turn; /* first */
	struct principal principal;
	bool live; /* the shop's key is good */
	enum language language;
	struct text sku;            /* as asked */
	struct text title, address; /* address: what this service is reached by */
};

/* What the page says of each state, {n} what is left; the script finds the same words in the page. */
static const struct words {
	const char *tag, *some, *last, *none, *held, *always, *embed, *unknown, *later;
} words[LANGUAGE_COUNT] = {
	[LANGUAGE_ENGLISH] = {"en", "{n} in stock", "The last one", "Sold out", "Held by another buyer just now",
                          "In stock", "This number on your own page", "There is no such product.",
                          "What is left cannot be said just now. Please try again in a moment."},
	[LANGUAGE_RUSSIAN] = {"ru", "В наличии: {n}", "Последняя штука", "Нет в наличии",
                          "Сейчас отложено другим покупателем", "В наличии", "Это число на вашей странице",
                          "Такого товара нет.", "Сейчас нельзя сказать, что осталось. Попробуйте ещё раз чуть позже."},
};

/* --- escapes ------------------------------------------------------------------------------------------------------ */

/* JSON inside a script element: a `<` can only stand in a string, and there it may not begin `</script` or `<!--`. */
static void put_json_in_script(struct buffer *out, struct text json)
{
	for (size_t i = 0; i < json.size; i++)
		if (json.data[i] == '<')
			buffer_add_string(out, "\\u003c");
		else
			buffer_add_char(out, json.data[i]);
}

static void put_percent(struct buffer *out, struct text text)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] && strchr(plain, text.data[i]))
			buffer_add_char(out, text.data[i]);
		else
			buffer_add_format(out, "%%%02X", (unsigned char)text.data[i]);
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static const struct figures *figures_of(const struct shop_page *page)
{
	return &page->turn.products[0].figures;
}

static int64_t available_of(const struct shop_page *page)
{
	return figures_available(figures_of(page), &page->principal);
}

static bool in_stock(const struct shop_page *page)
{
	return figures_in_stock(figures_of(page), &page->principal);
}

static void put_state(struct buffer *out, const struct shop_page *page)
{
	const struct words *w = &words[page->language];
	int64_t available = available_of(page);
	const char *sentence = !figures_of(page)->tracked   ? w->always
	                       : available > 1              ? w->some
	                       : available == 1             ? w->last
	                       : figures_of(page)->reserved ? w->held
	                                                    : w->none;
	const char *number = strstr(sentence, "{n}");
	buffer_add_text(out, (struct text){sentence, number ? (size_t)(number - sentence) : strlen(sentence)});
	if (number) {
		buffer_add_int(out, available);
		buffer_add_string(out, number + 3);
	}
}

static void put_json_ld(struct buffer *out, const struct shop_page *page)
{
	struct buffer json = {0};
	struct json_writer w = json_writer(&json);
	json_object_open(&w);
	json_member_string(&w, "@context", "https://schema.org");
	json_member_string(&w, "@type", "Product");
	json_key(&w, "name");
	json_put_text(&w, page->title);
	json_key(&w, "sku");
	json_put_text(&w, page->turn.products[0].code);
	json_key(&w, "offers");
	json_object_open(&w);
	json_member_string(&w, "@type", "Offer");
	json_member_string(&w, "availability",
	                   in_stock(page) ? "https://schema.org/InStock" : "https://schema.org/OutOfStock");
	json_object_close(&w);
	json_object_close(&w);
	buffer_add_string(out, "<script type=\"application/ld+json\">");
	put_json_in_script(out, buffer_text(&json));
	buffer_add_string(out, "</script>\n");
	buffer_done(&json);
}

/* Five lines that a shop can paste into a page of its own. */
static void put_snippet(struct buffer *out, const struct shop_page *page)
{
	struct buffer snippet = {0};
	buffer_add_string(&snippet, "<span id=\"stock\"></span>\n<script>\nnew EventSource(\"");
	buffer_add_text(&snippet, page->address);
	buffer_add_string(&snippet, "/v1/events?sku=");
	put_percent(&snippet, page->turn.products[0].code);
	buffer_add_string(&snippet, "&key=");
	buffer_add_string(&snippet, loop_of(page->turn.request)->config->shop_key);
	buffer_add_string(&snippet,
	                  "\").addEventListener(\"availability\", (e) => {\n"
	                  "  stock.textContent = JSON.parse(e.data).available ?? \"in stock\"; });\n</script>");
	buffer_add_format(out, "<details><summary>%s</summary>\n<pre tabindex=\"0\"><code>", words[page->language].embed);
	markup_add(out, buffer_text(&snippet));
	buffer_add_string(out, "</code></pre></details>\n");
	buffer_done(&snippet);
}

static void put_attribute(struct buffer *out, const char *name, struct text value)
{
	buffer_add_format(out, " data-%s=\"", name);
	markup_add(out, value);
	buffer_add_char(out, '"');
}

/* What the script needs to say the next state. */
static void put_live_attributes(struct buffer *out, const struct shop_page *page)
{
	const struct words *w = &words[page->language];
	put_attribute(out, "sku", page->turn.products[0].code);
	put_attribute(out, "key", text_of(loop_of(page->turn.request)->config->shop_key));
	put_attribute(out, "some", text_of(w->some));
	put_attribute(out, "last", text_of(w->last));
	put_attribute(out, "none", text_of(w->none));
	put_attribute(out, "held", text_of(w->held));
	put_attribute(out, "always", text_of(w->always));
}

/* The head, still open. */
static void put_head(struct buffer *out, enum language language, struct text title)
{
	buffer_add_format(out, "<!doctype html>\n<html lang=\"%s\">\n<head>\n<meta charset=\"utf-8\">\n<title>",
	                  words[language].tag);
	markup_add(out, title);
	buffer_add_string(
		out,
		"</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<link rel=\"icon\" href=\"/page/icon.svg\">\n<link rel=\"stylesheet\" href=\"/page/shop.css\">\n");
}

/* A page that has nothing else to say. */
static void render_sentence(struct buffer *out, const struct shop_page *page, const char *sentence)
{
	put_head(out, page->language, text_of(sentence));
	buffer_add_format(out, "</head>\n<body>\n<main>\n<h1>%s</h1>\n<p class=\"code\">", sentence);
	markup_add(out, page->sku);
	buffer_add_string(out, "</p>\n</main>\n</body>\n</html>\n");
}

static void render(struct buffer *out, const struct shop_page *page)
{
	put_head(out, page->language, page->title);
	put_json_ld(out, page);
	if (page->live)
		buffer_add_string(out, "<script type=\"module\" src=\"/page/shop.js\"></script>\n");
	buffer_add_string(out, "</head>\n<body>\n<main>\n<h1>");
	markup_add(out, page->title);
	buffer_add_format(out, "</h1>\n<p id=\"availability\" role=\"status\" class=\"%s\"", in_stock(page) ? "in" : "out");
	if (page->live)
		put_live_attributes(out, page);
	buffer_add_char(out, '>');
	put_state(out, page);
	buffer_add_string(out, "</p>\n<p class=\"code\">");
	markup_add(out, page->turn.products[0].code);
	buffer_add_string(out, "</p>\n");
	if (page->live)
		put_snippet(out, page);
	buffer_add_string(out, "</main>\n</body>\n</html>\n");
}

/* --- the route ---------------------------------------------------------------------------------------------------- */

static void reply_failed(struct shop_page *page, enum lu_error error)
{
	struct request *request = page->turn.request;
	const struct words *w = &words[page->language];
	struct buffer *out = loop_out(loop_of(request));
	int status = lu_error_status(error);
	if (status == 503)
		request_add_header(request, "Retry-After", TEXT("1"));
	render_sentence(out, page, status == 404 ? w->unknown : w->later);
	page_send_failed(request, status, "text/html; charset=utf-8", buffer_text(out));
}

static void on_found(struct turn *turn)
{
	struct shop_page *page = (struct shop_page *)turn;
	struct request *request = turn->request;
	if (turn->error || !turn->product_count) {
		reply_failed(page, turn->error ? turn->error : LU_UNKNOWN_SKU);
		return;
	}
	struct buffer *out = loop_out(loop_of(request));
	page->title = phrase_title(turn->arena, page->language, turn->products[0].titles_json, turn->products[0].code);
	render(out, page);
	page_send(request, "text/html; charset=utf-8", buffer_text(out));
}

void shop_page_get(struct request *request)
{
	const char *key = loop_of(request)->config->shop_key, *why;
	struct text accepted;
	struct shop_page *page = ARENA_NEW(request_arena(request), struct shop_page);
	turn_init(&page->turn, request);
	page->sku = request_param(request, 0);
	page->address = origin_address(request);
	page->language = request_header(request, "Accept-Language", &accepted) ? language_accepted(accepted)
	                                                                       : LANGUAGE_ENGLISH;
	request_add_header(request, "Vary", TEXT("Accept-Language, Host"));
	if (text_check_sku(page->sku)) {
		reply_failed(page, LU_UNKNOWN_SKU);
		return;
	}
	page->live = *key && !auth_as(request, text_of(key), SCOPE_READ, &why);
	if (page->live)
		page->principal = *request_principal(request);
	turn_find_code(&page->turn, page->sku, on_found);
}
