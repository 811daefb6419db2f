/* The strict look at a request's header bytes.
 *
 * Happy path: scan_find_end() passes once over the bytes as they come, until the empty line; scan_headers() then reads
 * the block line by line. After the first pass CR and LF occur only as a pair and no other control byte but tab is
 * left, so a line ends at the next CR and every value is clean without being looked at again.
 * Failure modes: every refusal has its own sentence; the server answers it and closes, since after a block that is
 * not understood nobody knows where the next one starts.
 */
#include "http/scan.h"

#include <string.h>
#include <strings.h>

#include "base/check.h"

/* What may stand where. TEXT: anywhere in a block (CR and LF are judged apart). TOKEN: RFC 9110, 5.6.2. TARGET:
 * visible ASCII but '#', which would be a fragment. HOST: reg-name, IP literal, port; no comma, so that a joined
 * pair of fields is not mistaken for one. */
enum { IN_TEXT = 1, IN_TOKEN = 2, IN_TARGET = 4, IN_HOST = 8, IN_DIGIT = 16 };

#define ALNUM (IN_TEXT | IN_TOKEN | IN_TARGET | IN_HOST)
#define MARK (IN_TEXT | IN_TOKEN | IN_TARGET) /* the marks that may stand in a token */
#define OTHER (IN_TEXT | IN_TARGET)

static const unsigned char classes[256] = {
	['\t'] = IN_TEXT,
	[' '] = IN_TEXT,
	['#'] = IN_TEXT | IN_TOKEN,
	['0' ... '9'] = ALNUM | IN_DIGIT,
	['a' ... 'z'] = ALNUM,
	['A' ... 'Z'] = ALNUM,
	['!'] = MARK | IN_HOST,
	['$'] = MARK | IN_HOST,
	['%'] = MARK | IN_HOST,
	['&'] = MARK | IN_HOST,
	['\''] = MARK | IN_HOST,
	['*'] = MARK | IN_HOST,
	['+'] = MARK | IN_HOST,
	['-'] = MARK | IN_HOST,
	['.'] = MARK | IN_HOST,
	['_'] = MARK | IN_HOST,
	['~'] = MARK | IN_HOST,
	['^'] = MARK,
	['`'] = MARK,
	['|'] = MARK,
	['('] = OTHER | IN_HOST,
	[')'] = OTHER | IN_HOST,
	[';'] = OTHER | IN_HOST,
	['='] = OTHER | IN_HOST,
	[':'] = OTHER | IN_HOST,
	['['] = OTHER | IN_HOST,
	[']'] = OTHER | IN_HOST,
	['"'] = OTHER,
	[','] = OTHER,
	['/'] = OTHER,
	['<'] = OTHER,
	['>'] = OTHER,
	['?'] = OTHER,
	['@'] = OTHER,
	['\\'] = OTHER,
	['{'] = OTHER,
	['}'] = OTHER,
	[0x80 ... 0xff] = IN_TEXT, /* obs-text: opaque, allowed in values only */
};

static inline bool is(char c, int class)
{
	return classes[(unsigned char)c] & class;
}

static size_t span(const char *from, const char *end, int class)
{
	const char *at = from;
	while (at < end && is(*at, class))
		at++;
	return (size_t)(at - from);
}

static enum lu_error refuse(const char *why, const char **ret_why)
{
	*ret_why = why;
	return LU_MALFORMED_REQUEST;
}

/* Of a request line with the longest target there may be, and one more. */
#define LINE_BYTES_MAX (SCAN_METHOD_BYTES_MAX + 1 + SCAN_TARGET_BYTES_MAX + sizeof " HTTP/1.1\r\n")

enum lu_error scan_find_end(struct text bytes, size_t *seen, size_t *ret_size, const char **ret_why)
{
	*ret_size = 0;
	/* A target is over its limit long before the block is. Nothing behind that place is looked at, so that what is said
	 * does not depend on how much has come. */
	bool line_open = bytes.size >= LINE_BYTES_MAX && !memchr(bytes.data, '\n', LINE_BYTES_MAX);
	size_t most = line_open ? LINE_BYTES_MAX : SCAN_HEAD_BYTES_MAX;
	size_t limit = bytes.size < most ? bytes.size : most;
	size_t i = *seen;
	if (i == 0 && limit > 0 && !is(bytes.data[0], IN_TOKEN))
		return refuse("A request starts with its method. (Is the client speaking TLS to a plain port?)", ret_why);
	while (i < limit) {
		char c = bytes.data[i];
		bool after_cr = i > 0 && bytes.data[i - 1] == '\r';
		if (c == '\n') {
			if (!after_cr)
				return refuse("A line must end in CR LF, not in LF alone.", ret_why);
			if (i >= 3 && bytes.data[i - 2] == '\n') {
				*ret_size = *seen = i + 1;
				return LU_OK;
			}
		} else if (after_cr) {
			return refuse("A CR must be followed by LF.", ret_why);
		} else if (c != '\r' && !is(c, IN_TEXT)) {
			return refuse("The header block holds a control byte.", ret_why);
		}
		i++;
		if (c != '\r')
			i += span(bytes.data + i, bytes.data + limit, IN_TEXT);
	}
	*seen = i;
	if (i < most)
		return LU_OK;
	*ret_why = ""; /* the table's own advice */
	return line_open ? LU_URI_TOO_LONG : LU_HEADERS_TOO_LARGE;
}

/* One line without its CR LF; false when none is left. */
static bool next_line(struct text *rest, struct text *ret_line)
{
	const char *cr = rest->size ? memchr(rest->data, '\r', rest->size) : NULL;
	if (!cr || (size_t)(cr - rest->data) + 2 > rest->size)
		return false;
	*ret_line = (struct text){rest->data, (size_t)(cr - rest->data)};
	rest->data = cr + 2;
	rest->size -= ret_line->size + 2;
	return true;
}

static enum lu_error read_request_line(struct text line, struct scan *scan, const char **ret_why)
{
	const char *end = line.data + line.size;
	scan->method = (struct text){line.data, span(line.data, end, IN_TOKEN)};
	const char *at = line.data + scan->method.size;
	if (scan->method.size == 0 || scan->method.size > SCAN_METHOD_BYTES_MAX || at == end || *at != ' ')
		return refuse("A request starts with a method, a blank and a path.", ret_why);
	at++;
	if (at == end || *at != '/')
		return refuse("The path of a request must start with '/'.", ret_why);
	scan->target = (struct text){at, span(at, end, IN_TARGET)};
	at += scan->target.size;
	if (scan->target.size > SCAN_TARGET_BYTES_MAX) {
		*ret_why = "";
		return LU_URI_TOO_LONG;
	}
	if (at < end && *at == '#')
		return refuse("A path has no '#': percent-encode it as %23.", ret_why);
	if (at < end && (unsigned char)*at >= 0x80)
		return refuse("A path holds ASCII only: percent-encode other characters as UTF-8.", ret_why);
	if (end - at != (ptrdiff_t)sizeof " HTTP/1.1" - 1 || memcmp(at, " HTTP/", 6) != 0 || !is(at[6], IN_DIGIT) ||
	    at[7] != '.' || !is(at[8], IN_DIGIT))
		return refuse("The request line must end in one blank and HTTP/1.1.", ret_why);
	if (at[6] != '1' || at[8] > '1') {
		*ret_why = "";
		return LU_VERSION_NOT_SUPPORTED;
	}
	scan->minor = at[8] - '0';
	return LU_OK;
}

static struct text trim(struct text value)
{
	while (value.size && (value.data[0] == ' ' || value.data[0] == '\t')) {
		value.data++;
		value.size--;
	}
	while (value.size && (value.data[value.size - 1] == ' ' || value.data[value.size - 1] == '\t'))
		value.size--;
	return value;
}

static bool same(struct text text, const char *literal, size_t size)
{
	return text.size == size && strncasecmp(text.data, literal, size) == 0;
}

#define SAME(text, literal) same((text), (literal), sizeof(literal) - 1)

static enum lu_error read_length(struct text value, struct scan *scan, const char **ret_why)
{
	if (scan->content_length >= 0)
		return refuse("There are two Content-Length fields.", ret_why);
	if (value.size == 0 || span(value.data, value.data + value.size, IN_DIGIT) != value.size)
		return refuse("Content-Length must be digits.", ret_why);
	int64_t length = 0;
	for (size_t i = 0; i < value.size; i++)
		if (__builtin_mul_overflow(length, 10, &length) ||
		    __builtin_add_overflow(length, value.data[i] - '0', &length)) {
			length = INT64_MAX;
			break;
		}
	scan->content_length = length;
	return LU_OK;
}

/* uri-host [ ":" port ] (RFC 9110, 7.2), both possibly empty. Of two colons nobody knows which one ends the name. */
static bool is_host(struct text value)
{
	const char *end = value.data + value.size, *rest = value.data;
	if (span(value.data, end, IN_HOST) != value.size)
		return false;
	if (rest < end && *rest == '[') {
		rest = memchr(rest, ']', value.size);
		if (!rest++)
			return false;
	} else {
		while (rest < end && *rest != ':')
			if (*rest == '[' || *rest++ == ']')
				return false;
	}
	return rest == end || (*rest == ':' && span(rest + 1, end, IN_DIGIT) == (size_t)(end - rest) - 1);
}

struct seen_fields {
	bool host, transfer_encoding, expect;
};

/* The fields that decide where a request ends and for whom it is. */
static enum lu_error read_field(struct text name, struct text value, struct scan *scan, struct seen_fields *seen,
                                const char **ret_why)
{
	switch (name.size) {
	case sizeof "Host" - 1:
		if (!SAME(name, "Host"))
			return LU_OK;
		if (seen->host)
			return refuse("There are two Host fields.", ret_why);
		if (!is_host(value))
			return refuse("Host must be one name or address, with an optional port.", ret_why);
		seen->host = true;
		return LU_OK;
	case sizeof "Content-Length" - 1:
		return SAME(name, "Content-Length") ? read_length(value, scan, ret_why) : LU_OK;
	case sizeof "Transfer-Encoding" - 1:
		if (!SAME(name, "Transfer-Encoding"))
			return LU_OK;
		if (seen->transfer_encoding)
			return refuse("There are two Transfer-Encoding fields.", ret_why);
		if (!SAME(value, "chunked"))
			return refuse("The only Transfer-Encoding understood is chunked.", ret_why);
		seen->transfer_encoding = scan->chunked = true;
		return LU_OK;
	case sizeof "Expect" - 1:
		if (!SAME(name, "Expect"))
			return LU_OK;
		scan->expect = SAME(value, "100-continue") && !seen->expect ? SCAN_EXPECT_CONTINUE : SCAN_EXPECT_OTHER;
		seen->expect = true;
		return LU_OK;
	default:
		return LU_OK;
	}
}

static enum lu_error read_line(struct text line, struct scan *scan, struct seen_fields *seen, const char **ret_why)
{
	if (line.data[0] == ' ' || line.data[0] == '\t')
		return refuse("A header field must not be folded over several lines.", ret_why);
	const char *end = line.data + line.size;
	struct text name = {line.data, span(line.data, end, IN_TOKEN)};
	const char *colon = line.data + name.size;
	if (colon < end && (*colon == ' ' || *colon == '\t'))
		return refuse("No blank may stand between a field's name and its colon.", ret_why);
	if (name.size == 0 || colon == end || *colon != ':')
		return refuse("A header field is a name, a colon and a value.", ret_why);
	struct text value = trim((struct text){colon + 1, (size_t)(end - colon - 1)});
	return read_field(name, value, scan, seen, ret_why);
}

/* What only the whole block can tell. */
static enum lu_error judge(struct scan *scan, const struct seen_fields *seen, const char **ret_why)
{
	if (scan->minor == 1 && !seen->host)
		return refuse("An HTTP/1.1 request needs a Host field.", ret_why);
	if (scan->minor == 0 && scan->chunked)
		return refuse("HTTP/1.0 knows no Transfer-Encoding.", ret_why);
	if (scan->chunked && scan->content_length >= 0)
		return refuse("Content-Length and Transfer-Encoding contradict each other.", ret_why);
	if (scan->minor == 0)
		scan->expect = SCAN_EXPECT_NONE;
	return LU_OK;
}

enum lu_error scan_headers(struct text block, struct scan *ret, const char **ret_why)
{
	struct scan scan = {.content_length = -1};
	struct seen_fields seen = {0};
	struct text rest = block, line;
	CHECK(block.size >= 4 && memcmp(block.data + block.size - 4, "\r\n\r\n", 4) == 0);
	CHECK(next_line(&rest, &line));
	enum lu_error error = read_request_line(line, &scan, ret_why);
	while (!error && next_line(&rest, &line) && line.size) {
		if (++scan.field_count > SCAN_FIELDS_MAX) {
			*ret_why = "A request has at most 100 header fields.";
			return LU_HEADERS_TOO_LARGE;
		}
		error = read_line(line, &scan, &seen, ret_why);
	}
	if (!error)
		error = judge(&scan, &seen, ret_why);
	if (!error)
		*ret = scan;
	return error;
}
