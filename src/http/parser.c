/* http_parser behind its seam.
 *
 * Happy path: one execute() over the block; its callbacks collect the fields, and on_headers_complete notes version,
 * method and keep-alive. The block is whole and in one piece, so a name or value comes in one call each.
 * Failure modes: the library refuses the block, or its view of the framing differs from the scan's: both are
 * LU_MALFORMED_REQUEST, because two readers that disagree are the very thing that the scan is there to prevent.
 */
#include "http/parser.h"

/* The library has an enum of the same name as ours. */
#define http_method library_method
#include <http_parser.h>
#undef http_method

struct reading {
	struct http_head *head;
	size_t room;
	uint64_t content_length;
	bool complete;
	bool chunked;
	bool in_pieces;
};

static int on_url(http_parser *parser, const char *at, size_t size)
{
	struct reading *reading = parser->data;
	reading->in_pieces |= reading->head->target.data != NULL;
	reading->head->target = (struct text){at, size};
	return 0;
}

static int on_field(http_parser *parser, const char *at, size_t size)
{
	struct reading *reading = parser->data;
	struct http_head *head = reading->head;
	if (head->field_count == reading->room)
		return -1;
	head->fields[head->field_count++].name = (struct text){at, size};
	return 0;
}

static int on_value(http_parser *parser, const char *at, size_t size)
{
	struct reading *reading = parser->data;
	struct http_field *field = &reading->head->fields[reading->head->field_count - 1];
	reading->in_pieces |= field->value.data != NULL;
	/* The library drops the blanks before a value, not those behind it. */
	while (size && (at[size - 1] == ' ' || at[size - 1] == '\t'))
		size--;
	field->value = (struct text){at, size};
	return 0;
}

static int on_complete(http_parser *parser)
{
	struct reading *reading = parser->data;
	reading->complete = true;
	reading->content_length = parser->content_length;
	reading->chunked = parser->flags & F_CHUNKED;
	reading->head->keep_alive = http_should_keep_alive(parser);
	return 1; /* no body is fed to it */
}

static const http_parser_settings settings = {
	.on_url = on_url,
	.on_header_field = on_field,
	.on_header_value = on_value,
	.on_headers_complete = on_complete,
};

static enum http_method method_of(unsigned method)
{
	switch (method) {
	case HTTP_GET:
		return HTTP_METHOD_GET;
	case HTTP_HEAD:
		return HTTP_METHOD_HEAD;
	case HTTP_POST:
		return HTTP_METHOD_POST;
	case HTTP_PUT:
		return HTTP_METHOD_PUT;
	case HTTP_DELETE:
		return HTTP_METHOD_DELETE;
	case HTTP_OPTIONS:
		return HTTP_METHOD_OPTIONS;
	default:
		return 0;
	}
}

enum lu_error parser_read(struct text block, const struct scan *scan, struct arena *arena, struct http_head *ret_head,
                          const char **ret_why)
{
	*ret_head = (struct http_head){.fields = ARENA_ARRAY(arena, scan->field_count, struct http_field)};
	struct reading reading = {.head = ret_head, .room = scan->field_count};
	http_parser parser;
	http_parser_init(&parser, HTTP_REQUEST);
	parser.data = &reading;
	http_parser_execute(&parser, &settings, block.data, block.size);
	enum http_errno error = HTTP_PARSER_ERRNO(&parser);
	if (error == HPE_INVALID_METHOD) {
		/* A token it does not know is still a method: the router says 404 or 405, and the connection closes. */
		*ret_head = (struct http_head){.target = scan->target};
		return LU_OK;
	}
	if (error || !reading.complete) {
		*ret_why = "The header block cannot be read.";
		return LU_MALFORMED_REQUEST;
	}
	uint64_t length = scan->content_length < 0 ? UINT64_MAX : (uint64_t)scan->content_length;
	if (reading.in_pieces || ret_head->field_count != scan->field_count || parser.http_minor != scan->minor ||
	    ret_head->target.size != scan->target.size || reading.content_length != length ||
	    reading.chunked != scan->chunked) {
		*ret_why = "The header block can be read in more than one way.";
		return LU_MALFORMED_REQUEST;
	}
	ret_head->method = method_of(parser.method);
	return LU_OK;
}
