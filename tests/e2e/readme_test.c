/* The examples of the READMEs, one after the other as they stand, on the shop of a first `make run`: each answers what
 * the page says. Who tries a page that lies does not try the next.
 *
 * An example is a call, `api …`, in a block ```sh. What it answers stands behind it: in a block ```json, or in a comment,
 * `#  {…}` or `#  409 insufficient_stock`. Of JSON, what is written must be there and nothing else, unless the object has
 * a `,…` as well; a text that ends in … may go on, and ids and times are any. A call of which nothing is said must not be
 * a problem. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/service.h"

#define TEXT_BYTES 65536
#define COMMAND_BYTES 4096

static struct service service;

struct page {
	const char *path;
	char setup[COMMAND_BYTES];   /* what the page has its reader type first */
	char command[COMMAND_BYTES]; /* the last call, not yet made; "" none */
	char expected[TEXT_BYTES];   /* of it */
	bool in_sh, in_json;
	int calls;
};

static bool is_any(const char *text, size_t size)
{
	bool hex = size <= 4;
	for (size_t i = 0; i < size; i++)
		hex &= strchr("0123456789abcdef", text[i]) != NULL;
	return hex;
}

static bool string_fits(const char *expected, const char *actual)
{
	const char *dots = strstr(expected, "…");
	size_t size = dots ? (size_t)(dots - expected) : strlen(expected);
	if (size == 24 && expected[10] == 'T' && expected[23] == 'Z')
		return strlen(actual) == 24 && actual[10] == 'T';
	if (!dots)
		return strcmp(expected, actual) == 0;
	return is_any(expected, size) || strncmp(expected, actual, size) == 0;
}

static bool fits(json_t *expected, json_t *actual);

/* Whoever leaves members out says so. */
static bool object_fits(json_t *expected, json_t *actual)
{
	const char *key;
	json_t *value;
	if (!json_is_object(actual))
		return false;
	bool cut = json_object_del(expected, "…") == 0;
	json_object_foreach(expected, key, value) if (!fits(value, json_object_get(actual, key))) return false;
	return cut || json_object_size(expected) == json_object_size(actual);
}

static bool fits(json_t *expected, json_t *actual)
{
	if (json_is_string(expected) && json_is_string(actual))
		return string_fits(json_string_value(expected), json_string_value(actual));
	if (json_is_array(expected)) {
		size_t i;
		json_t *value;
		if (json_array_size(actual) != json_array_size(expected))
			return false;
		json_array_foreach(expected, i, value) if (!fits(value, json_array_get(actual, i))) return false;
		return true;
	}
	if (json_is_object(expected))
		return object_fits(expected, actual);
	return json_equal(expected, actual);
}

/* `,…` between members or behind them is no JSON: as a member of that name. */
static json_t *read_sample(const char *text)
{
	static const char dots[] = ",…", member[] = ",\"…\":0";
	char out[TEXT_BYTES + sizeof member], *to = out;
	while (*text && to < out + TEXT_BYTES) {
		if (strncmp(text, dots, strlen(dots)) == 0 && strchr(",}", text[strlen(dots)])) {
			to = stpcpy(to, member);
			text += strlen(dots);
		} else {
			*to++ = *text++;
		}
	}
	*to = 0;
	return json_loads(out, 0, NULL);
}

static bool answers(const char *expected, json_t *actual)
{
	int status = (int)json_integer_value(json_object_get(actual, "status"));
	const char *code = json_string_value(json_object_get(actual, "code"));
	int said;
	char word[60] = "";
	if (*expected == '{') {
		json_t *json = read_sample(expected);
		bool good = json && fits(json, actual);
		json_decref(json);
		return good;
	}
	if (sscanf(expected, "%d %59[a-z_]", &said, word) >= 1 && said >= 400)
		return status == said && code && strcmp(code, word) == 0;
	return status == 0;
}

static void make_call(struct page *page)
{
	char script[3 * COMMAND_BYTES], out[TEXT_BYTES];
	if (!*page->command)
		return;
	snprintf(script, sizeof script, "cd %s/..\n%s\n%s\n", service.directory, page->setup, page->command);
	FILE *pipe = popen(script, "r");
	assert_non_null(pipe);
	out[fread(out, 1, sizeof out - 1, pipe)] = 0;
	assert_int_equal(pclose(pipe), 0);
	json_t *json = json_loads(out, 0, NULL);
	if (!json || !answers(page->expected, json))
		fail_msg("%s: %s\nanswers\n%s\nand not\n%s", page->path, page->command, out, page->expected);
	json_decref(json);
	page->calls++;
	*page->command = *page->expected = 0;
}

static void append(char *to, size_t room, const char *line)
{
	assert_true(strlen(to) + strlen(line) + 1 < room);
	strcat(to, line);
}

static void take_sh_line(struct page *page, const char *line)
{
	const char *env = strstr(line, ".lastunit/dev.env");
	if (env) {
		assert_int_equal(*page->setup, 0);
		snprintf(page->setup, sizeof page->setup, "%.*sdata%s", (int)(env - line), line, env + strlen(".lastunit"));
	} else if (strncmp(line, "api()", 5) == 0) {
		append(page->setup, sizeof page->setup, line);
	} else if (strncmp(line, "api ", 4) == 0) {
		make_call(page);
		append(page->command, sizeof page->command, line);
	} else if (strncmp(line, "#  ", 3) == 0) {
		append(page->expected, sizeof page->expected, line + 3);
	} else if (*page->command && *line != '\n') {
		append(page->command, sizeof page->command, line);
	}
}

/* "data" is the name that service_start() gives the directory. */
static int read_page(const char *path)
{
	char line[COMMAND_BYTES];
	struct page *page = calloc(1, sizeof *page);
	page->path = path;
	FILE *file = fopen(path, "r");
	assert_non_null(file); /* tests/run.sh runs in the project's directory */
	while (fgets(line, sizeof line, file)) {
		bool fence = strncmp(line, "```", 3) == 0, was_in = page->in_sh || page->in_json;
		if (fence) {
			if (page->in_json) { /* what stands in a further block is something else */
				make_call(page);
				*page->expected = 0;
			}
			page->in_sh = !was_in && strcmp(line, "```sh\n") == 0;
			if (page->in_sh)
				make_call(page);
			page->in_json = !was_in && strcmp(line, "```json\n") == 0;
		} else if (page->in_json) {
			append(page->expected, sizeof page->expected, line);
		} else if (page->in_sh) {
			take_sh_line(page, line);
		}
	}
	fclose(file);
	make_call(page);
	int calls = page->calls;
	free(page);
	return calls;
}

static void the_examples_answer_what_the_pages_say(void **state)
{
	assert_true(read_page("README.md") >= 3);
	assert_true(read_page("src/api/README.md") >= 9);
}

static int start(void **state)
{
	service_start(&service, (const char *const[]){"--demo", NULL});
	return 0;
}

static int stop(void **state)
{
	int audited = service_audit(&service);
	int code = service_stop(&service);
	return audited || code;
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_examples_answer_what_the_pages_say)};
	return cmocka_run_group_tests(tests, start, stop);
}
