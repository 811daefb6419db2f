/* Settings of `serve` that are right one by one and wrong together (cmd/serve_settings.h).
 *
 * Bugs it guards against: a secret key as --shop-key, shown to every visitor of a product page; a channel that somebody
 * asked for, started in silence and shut, because a flag beside its key was missing; a key of another channel; agents
 * without a key who may hold the whole stock, because the caps of callers do not reach them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/command.h"
#include "lib/service.h"

static struct service service;

/* They are judged before PostgreSQL is asked: this one is nowhere. `dev` refuses them before it makes a cluster. */
static void settings_that_are_wrong_together_are_refused_at_the_start(void **state)
{
	static const struct {
		const char *variables[3], *sentence;
	} rows[] = {
		{{"LASTUNIT_SHOP_KEY=lu_01234567890123456789012345678901"},
	     "--shop-key must be a publishable key (lu_pub_...): "},
		{{"LASTUNIT_PUBLIC_URL=shop.example"}, "--public-url must begin with https://"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example/stock"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example?a=b"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example#a"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example//"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example:"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example:70000"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://shop.example:8o"}, "--public-url must end with its host or port"},
		{{"LASTUNIT_PUBLIC_URL=https://me@shop.example"}, "--public-url must name a host and no user"},
		{{"LASTUNIT_PUBLIC_URL=https://me:1@shop.example"}, "--public-url must name a host and no user"},
		{{"LASTUNIT_PUBLIC_URL=https://"}, "--public-url must name a host and no user"},
		{{"LASTUNIT_PUBLIC_URL=https://:443"}, "--public-url must name a host and no user"},
		{{"LASTUNIT_PUBLIC_URL=https:///channels"}, "--public-url must name a host and no user"},
		{{"LASTUNIT_PUBLIC_URL=https://[::1"}, "--public-url must end with its host or port"},
		/* Right ones: it is the next setting that is refused. */
		{{"LASTUNIT_PUBLIC_URL=https://shop.example", "LASTUNIT_ALEXA_KEY=lu_1"}, "--alexa-key needs"},
		{{"LASTUNIT_PUBLIC_URL=HTTPS://Shop.example:8443/", "LASTUNIT_ALEXA_KEY=lu_1"}, "--alexa-key needs"},
		{{"LASTUNIT_PUBLIC_URL=http://[::1]:8080", "LASTUNIT_ALEXA_KEY=lu_1"}, "--alexa-key needs"},
		{{"LASTUNIT_TELEGRAM_KEY=lu_1"}, "--telegram-key needs --telegram-secret"},
		{{"LASTUNIT_ALEXA_KEY=lu_1"}, "--alexa-key needs --alexa-application"},
		{{"LASTUNIT_TWILIO_KEY=lu_1"}, "--twilio-key needs --twilio-token"},
		{{"LASTUNIT_TWILIO_KEY=lu_1", "LASTUNIT_TWILIO_TOKEN=t"}, "--twilio-key needs --public-url"},
	};
	static const char *const serve[] = {"serve", "--database-url", "host=/nowhere", NULL}, *const dev[] = {"dev", NULL};
	for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
		struct command refused = command_run(i % 2 ? dev : serve, rows[i / 2].variables);
		if (refused.exit_code != 2 || !strstr(refused.err, rows[i / 2].sentence) || strstr(refused.err, "0123456789"))
			fail_msg("%d, %s instead of %s", refused.exit_code, refused.err, rows[i / 2].sentence);
		command_done(&refused);
	}
}

/* They may be made later: the service starts, and names the flag. It ends by itself, as its address is looked at last. */
static void keys_that_open_no_channel_are_named_in_the_log(void **state)
{
	char url[600], telegram[100];
	snprintf(url, sizeof url, "LASTUNIT_DATABASE_URL=%s", service.database_url);
	snprintf(telegram, sizeof telegram, "LASTUNIT_TELEGRAM_KEY=%s", service.key_web);
	struct command serve = command_run((const char *[]){"serve", "--listen", "nowhere", "--shop-key",
	                                                    "lu_pub_0123456789012345678901234567", "--alexa-application",
	                                                    "skill", NULL},
	                                   (const char *[]){url, telegram, "LASTUNIT_TELEGRAM_SECRET=s", NULL});
	assert_int_equal(serve.exit_code, 2);
	assert_non_null(strstr(serve.err, "warn key_unknown flag=--shop-key "));
	assert_non_null(strstr(serve.err, "warn key_of_another_channel flag=--telegram-key channel=web wanted=telegram"));
	assert_non_null(strstr(serve.err, "warn channel_shut flag=--alexa-application "));
	assert_null(strstr(serve.err, service.key_web));
	command_done(&serve);
}

/* What `serve` says on stderr before it finds that it cannot listen. The caller gives it to command_done(). */
static struct command serve_public_mcp(const char *key)
{
	char url[600], public_mcp[100];
	snprintf(url, sizeof url, "LASTUNIT_DATABASE_URL=%s", service.database_url);
	snprintf(public_mcp, sizeof public_mcp, "LASTUNIT_PUBLIC_MCP=%s", key);
	struct command serve = command_run((const char *[]){"serve", "--listen", "nowhere", NULL},
	                                   (const char *[]){url, public_mcp, NULL});
	assert_int_equal(serve.exit_code, 2);
	return serve;
}

/* `dev` gives its agent a cap on holds, and its web shop caps for callers only. */
static void agents_that_no_cap_reaches_are_named_in_the_log(void **state)
{
	struct command serve = serve_public_mcp(service.key_web);
	assert_non_null(strstr(serve.err, "warn hoarding_possible flag=--public-mcp "));
	assert_non_null(strstr(serve.err, "--held-units-max"));
	assert_null(strstr(serve.err, service.key_web));
	command_done(&serve);
	serve = serve_public_mcp(service.key_agent);
	assert_null(strstr(serve.err, "hoarding_possible"));
	command_done(&serve);
}

/* A log that nobody reads: a stopped `tee`. The warnings of the start and the line of the end find no room. */
static void a_log_that_nobody_reads_stops_neither_the_start_nor_the_answers_nor_the_end(void **state)
{
	int log_ends[2], saved = dup(STDERR_FILENO), size;
	struct service beside;
	char page[4096] = "";
	assert_int_equal(pipe2(log_ends, O_CLOEXEC), 0);
	assert_true((size = fcntl(log_ends[1], F_SETPIPE_SZ, sizeof page)) > 0);
	for (int left = size; left > 0; left -= (int)sizeof page)
		assert_int_equal(write(log_ends[1], page, sizeof page), sizeof page);
	service_create_sku(&service, "LOUD", 3);
	dup2(log_ends[1], STDERR_FILENO);
	service_beside(&beside, &service, NULL, NULL,
	               (const char *[]){"--shop-key", "lu_pub_0123456789012345678901234567", NULL});
	dup2(saved, STDERR_FILENO);
	close(saved);
	struct seen seen = service_see(&beside, "LOUD");
	struct answer metrics = service_call(&beside, service.key_admin, "GET", "/metrics", NULL, NULL);
	const char *lost = strstr(metrics.body, "\nlastunit_log_lines_lost_total ");
	assert_non_null(lost);
	long lines = strtol(strrchr(strtok((char *)lost + 1, "\n"), ' '), NULL, 10);
	answer_done(&metrics);
	int code = service_stop(&beside);
	close(log_ends[0]);
	close(log_ends[1]);
	assert_int_equal(seen.available, 3);
	assert_true(lines > 0);
	assert_int_equal(code, 0);
}

static int start(void **state)
{
	service_start(&service, NULL);
	return 0;
}

static int stop(void **state)
{
	return service_stop(&service);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_that_are_wrong_together_are_refused_at_the_start),
		cmocka_unit_test(keys_that_open_no_channel_are_named_in_the_log),
		cmocka_unit_test(agents_that_no_cap_reaches_are_named_in_the_log),
		cmocka_unit_test(a_log_that_nobody_reads_stops_neither_the_start_nor_the_answers_nor_the_end),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
