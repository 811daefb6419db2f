/* /openapi.json says what the table of routes says: every route, no other, with its scope. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "api/api.h"
#include "base/embed.h"
#include "http/request.h"
#include "lastunit/error.h"
#include "lastunit/version.h"
#include "lib/follow.h"

static json_t *description;

static int load(void **state)
{
	struct text text = embed_find("src/api/openapi.json");
	json_error_t error;
	description = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &error);
	if (!description)
		fail_msg("line %d: %s", error.line, error.text);
	return 0;
}

static int forget(void **state)
{
	json_decref(description);
	return 0;
}

static const char *method_name(unsigned method)
{
	switch (method) {
	case HTTP_METHOD_GET:
		return "get";
	case HTTP_METHOD_POST:
		return "post";
	case HTTP_METHOD_PUT:
		return "put";
	default:
		return "delete";
	}
}

/* The scope that the first way in asks for; "" for none. */
static const char *described_scope(const json_t *operation)
{
	const json_t *way = json_array_get(json_object_get(operation, "security"), 0);
	const char *scope = json_string_value(json_array_get(json_object_get(way, "key"), 0));
	return scope ? scope : "";
}

static void every_route_is_described(void **state)
{
	const struct router *router = api_router(NULL);
	const json_t *paths = json_object_get(description, "paths");
	for (size_t i = 0; i < router->count; i++) {
		const struct route *route = &router->routes[i];
		const json_t *operation = json_object_get(json_object_get(paths, route->pattern), method_name(route->methods));
		if (!operation)
			fail_msg("%s %s is not described", method_name(route->methods), route->pattern);
		/* What asks for a key by itself may describe one. */
		if (route_scopes(route))
			assert_string_equal(described_scope(operation), scope_name((enum scope)route_scopes(route)));
	}
}

static void nothing_else_is_described(void **state)
{
	const struct router *router = api_router(NULL);
	const char *path, *method;
	json_t *item, *operation;
	size_t count = 0;
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			bool known = false;
			for (size_t i = 0; i < router->count && !known; i++)
				known = !strcmp(router->routes[i].pattern, path) &&
				        !strcmp(method_name(router->routes[i].methods), method);
			if (!known)
				fail_msg("%s %s is no route", method, path);
			count++;
		}
	}
	assert_int_equal(count, router->count);
}

static bool describes(const json_t *operation, const char *status)
{
	return json_object_get(json_object_get(operation, "responses"), status);
}

static void what_takes_a_body_may_refuse_its_type_and_its_size(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			if (json_object_get(operation, "requestBody") && !describes(operation, "415"))
				fail_msg("%s %s takes a body and has no 415", method, path);
			/* Of any call: nobody else looks at a body before its size is known. */
			if ((!strcmp(method, "post") || !strcmp(method, "put")) && !describes(operation, "413"))
				fail_msg("%s %s has no 413", method, path);
		}
	}
}

static void every_call_may_refuse_a_parameter(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			if (!strncmp(path, "/v1/", 4) && !describes(operation, "422"))
				fail_msg("%s %s has no 422", method, path);
		}
	}
}

static bool starts(const char *path, const char *with)
{
	return strncmp(path, with, strlen(with)) == 0;
}

/* A client that was written by this page alone must know what to do with whatever comes. */
static void every_call_may_be_refused_as_described(void **state)
{
	const char *path, *method;
	json_t *item, *operation;
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			bool api = starts(path, "/v1/"), channel = starts(path, "/channels/") || !strcmp(path, "/mcp");
			bool asks = api || channel || starts(path, "/feeds/") || starts(path, "/shop/");
			/* An EventSource is told in another way (src/api/README.md). */
			const char *const expected[] = {
				"default",
				"400",
				api || channel ? "401" : "default",
				api || channel ? "403" : "default",
				asks && strcmp(path, "/v1/events") != 0 ? "503" : "default",
				api && strcmp(method, "get") != 0 ? "412" : "default",
			};
			for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
				if (!describes(operation, expected[i]))
					fail_msg("%s %s has no %s", method, path, expected[i]);
		}
	}
}

static void whoever_is_told_to_come_back_is_told_when(void **state)
{
	const char *path, *method, *status;
	json_t *item, *operation, *response;
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			json_object_foreach(json_object_get(operation, "responses"), status, response)
			{
				const json_t *headers = json_object_get(json_follow(description, response), "headers");
				if ((!strcmp(status, "503") || !strcmp(status, "429")) && !json_object_get(headers, "Retry-After"))
					fail_msg("%s %s %s has no Retry-After", method, path, status);
			}
		}
	}
}

/* Who would rather have an old number than none must learn here how to ask. */
static void what_may_be_stale_says_how_it_is_asked_for(void **state)
{
	const char *path, *method;
	json_t *item, *operation, *parameter;
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			bool asks = false;
			size_t i;
			json_array_foreach(json_object_get(operation, "parameters"), i, parameter)
			{
				const char *name = json_string_value(json_object_get(json_follow(description, parameter), "name"));
				asks |= !strcmp(name, "Cache-Control");
			}
			if (asks != starts(path, "/v1/availability"))
				fail_msg("%s %s", method, path);
		}
	}
}

/* Is the code, in its quotes, named by a response that some call may have with this status, or that any may have? */
static bool is_named(const char *code, const char *status)
{
	const char *path, *method;
	json_t *item, *operation;
	char quoted[80];
	snprintf(quoted, sizeof quoted, "`%s`", code);
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			const json_t *responses = json_object_get(operation, "responses");
			const char *const keys[] = {status, "default"};
			for (int i = 0; i < 2; i++) {
				const json_t *response = json_follow(description, json_object_get(responses, keys[i]));
				const char *says = json_string_value(json_object_get(response, "description"));
				if (says && strstr(says, quoted))
					return true;
			}
		}
	}
	return false;
}

static void every_problem_is_named_where_its_status_is_described(void **state)
{
	for (enum lu_error error = LU_OK + 1; error < LU_ERROR_COUNT; error++) {
		char status[8];
		snprintf(status, sizeof status, "%d", lu_error_status(error));
		if (!is_named(lu_error_code(error), status))
			fail_msg("%s is not named under any %s", lu_error_code(error), status);
	}
}

/* A name that is used twice would make a generated client lose one. */
static const json_t *body_of_post(const char *path)
{
	const json_t *post = json_object_get(json_object_get(json_object_get(description, "paths"), path), "post");
	const json_t *content = json_object_get(json_object_get(post, "requestBody"), "content");
	return json_object_get(json_object_get(content, "application/json"), "schema");
}

/* A client made of the description sends what it describes, and nothing else. */
static void an_agents_body_is_a_message_or_some(void **state)
{
	const json_t *ways = json_object_get(body_of_post("/mcp"), "oneOf");
	const json_t *one = json_array_get(ways, 0), *some = json_array_get(ways, 1);
	const char *type = json_string_value(json_object_get(some, "type"));
	assert_string_equal(type ? type : "", "array");
	assert_ptr_equal(json_follow(description, json_object_get(some, "items")), json_follow(description, one));
}

static void a_line_that_moves_a_count_has_nothing_to_change_from(void **state)
{
	const json_t *lines = json_object_get(json_object_get(body_of_post("/v1/adjustments"), "properties"), "lines");
	const json_t *ways = json_object_get(json_object_get(lines, "items"), "oneOf"), *way;
	size_t i;
	assert_int_equal(json_array_size(ways), 2);
	json_array_foreach(ways, i, way)
	{
		const json_t *properties = json_object_get(json_follow(description, way), "properties");
		assert_non_null(properties);
		const char *set = json_string_value(json_object_get(json_object_get(properties, "set"), "type"));
		assert_int_equal(json_object_get(properties, "change_from") != NULL, set && strcmp(set, "integer") == 0);
	}
}

static void every_operation_has_a_name_of_its_own(void **state)
{
	const char *path, *method;
	json_t *item, *operation, *seen = json_object();
	json_object_foreach(json_object_get(description, "paths"), path, item)
	{
		json_object_foreach(item, method, operation)
		{
			const char *name = json_string_value(json_object_get(operation, "operationId"));
			assert_non_null(name);
			assert_null(json_object_get(seen, name));
			json_object_set_new(seen, name, json_true());
		}
	}
	json_decref(seen);
}

static void it_is_of_the_version_of_this_binary(void **state)
{
	const json_t *info = json_object_get(description, "info");
	assert_string_equal(json_string_value(json_object_get(info, "version")), LASTUNIT_VERSION);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_route_is_described),
		cmocka_unit_test(nothing_else_is_described),
		cmocka_unit_test(what_takes_a_body_may_refuse_its_type_and_its_size),
		cmocka_unit_test(every_call_may_refuse_a_parameter),
		cmocka_unit_test(every_call_may_be_refused_as_described),
		cmocka_unit_test(whoever_is_told_to_come_back_is_told_when),
		cmocka_unit_test(what_may_be_stale_says_how_it_is_asked_for),
		cmocka_unit_test(every_problem_is_named_where_its_status_is_described),
		cmocka_unit_test(an_agents_body_is_a_message_or_some),
		cmocka_unit_test(a_line_that_moves_a_count_has_nothing_to_change_from),
		cmocka_unit_test(every_operation_has_a_name_of_its_own),
		cmocka_unit_test(it_is_of_the_version_of_this_binary),
	};
	return cmocka_run_group_tests(tests, load, forget);
}
