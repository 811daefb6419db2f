/* The inventory inside a test (house.h). Its threads never assert: findings are handed to the main thread. */
#include "lib/house.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/thread.h>

#include "base/log.h"
#include "base/mailbox.h"
#include "store/pg.h"

struct pg_server house_pg;
struct redis_server house_redis;
struct config house_config;

#define PATIENCE_S 30

int house_servers_start(void **state)
{
	char *arguments[] = {"test", NULL};
	int positionals;
	bool help;
	if (!config_load(&house_config, "*", NULL, 1, arguments, &positionals, &help, stderr))
		return -1;
	house_config.lease_ms = 200;
	house_config.reopen_after_ms = 100;
	house_config.redis_timeout_ms = 200;
	house_config.scrub_per_s = 0; /* it would mend what a test forges */
	log_set_level(LOG_ERROR);
	pg_server_start(&house_pg, "autovacuum = off\nmax_connections = 200\n");
	redis_server_start(&house_redis, NULL);
	return 0;
}

int house_servers_stop(void **state)
{
	redis_server_stop(&house_redis);
	pg_server_done(&house_pg);
	return 0;
}

/* --- opening ------------------------------------------------------------------------------------------------------ */

static void proxies_start(struct house *house)
{
	char listen[108], target[108];
	snprintf(house->directory, sizeof house->directory, "/tmp/lu-house-XXXXXX");
	assert_non_null(mkdtemp(house->directory));
	const char *port = ".s.PGSQL.5432";
	snprintf(listen, sizeof listen, "%s/%s", house->directory, port);
	snprintf(target, sizeof target, "%s/%s", house_pg.directory, port);
	if (access(target, F_OK) != 0)
		snprintf(target, sizeof target, "%s/socket/%s", house_pg.directory, port);
	proxy_start(&house->pg_proxy, listen, target);
	snprintf(listen, sizeof listen, "%s/redis", house->directory);
	proxy_start(&house->redis_proxy, listen, house_redis.socket);
	snprintf(house->redis_url, sizeof house->redis_url, "unix://%s", listen);
}

/* The same database through the proxy. */
static void proxied(struct house *house)
{
	PQconninfoOption *options = PQconninfoParse(house->url, NULL), *o;
	assert_non_null(options);
	const char *dbname = "", *user = "";
	for (o = options; o->keyword; o++) {
		if (!strcmp(o->keyword, "dbname") && o->val)
			dbname = o->val;
		if (!strcmp(o->keyword, "user") && o->val)
			user = o->val;
	}
	snprintf(house->proxied_url, sizeof house->proxied_url, "host=%s port=5432 dbname=%s%s%s", house->directory, dbname,
	         user[0] ? " user=" : "", user);
	PQconninfoFree(options);
}

void house_open_without_epoch(struct house *house, const struct house *beside)
{
	static int number;
	memset(house, 0, sizeof *house);
	house->pg = &house_pg;
	house->redis = &house_redis;
	proxies_start(house);
	if (beside) {
		snprintf(house->url, sizeof house->url, "%s", beside->url);
	} else {
		char name[32];
		snprintf(name, sizeof name, "house_%d", ++number);
		pg_server_database(&house_pg, name, house->url);
	}
	proxied(house);
	house->config = house_config;
	house->config.database_url = house->proxied_url;
	if (!house_config.redis_url || !house_config.redis_url[0])
		house->config.redis_url = house->redis_url;
	if (!beside)
		sql(house, "INSERT INTO lastunit.principal (name, channel) VALUES ('test', 1)");
	house->principal_id = sql_int(house, "SELECT id FROM lastunit.principal WHERE name = 'test'");
	char why[512];
	int exit_code;
	house->keyring = keyring_new();
	house->inventory = inventory_start(&house->config, house->keyring, why, &exit_code);
	if (!house->inventory)
		print_error("%s\n", why);
	assert_non_null(house->inventory);
}

void house_open(struct house *house, const struct house *beside)
{
	house_open_without_epoch(house, beside);
	wait_for_open_epoch(house);
}

void house_close(struct house *house)
{
	inventory_stop(house->inventory);
	keyring_free(house->keyring);
	proxy_stop(&house->pg_proxy);
	proxy_stop(&house->redis_proxy);
	rmdir(house->directory);
}

void wait_for_open_epoch(struct house *house)
{
	for (int i = 0; i < PATIENCE_S * 100; i++) {
		struct inventory_status status;
		inventory_status(house->inventory, &status);
		if (status.lease)
			return;
		usleep(10000);
	}
	fail_msg("no epoch was opened in %d s", PATIENCE_S);
}

/* --- operations --------------------------------------------------------------------------------------------------- */

static void on_done(struct operation *operation)
{
	sem_post(&((struct attempt_at *)operation)->answers);
}

static struct attempt_at *attempt_new(struct house *house, enum operation_kind kind)
{
	struct attempt_at *a = calloc(1, sizeof *a);
	arena_init(&a->arena, 4096);
	sem_init(&a->answers, 0, 0);
	a->operation = (struct operation){.kind = kind,
	                                  .arena = &a->arena,
	                                  .principal = {.id = house->principal_id, .channel = CHANNEL_WEB, .scopes = ~0u},
	                                  .deadline_ns = deadline_in_ms(house->config.request_timeout_ms),
	                                  .lines = a->lines,
	                                  .on_done = on_done};
	return a;
}

static struct attempt_at *submit(struct house *house, struct attempt_at *a)
{
	enum lu_error error = inventory_submit(house->inventory, &a->operation);
	if (error) {
		a->operation.verdict.error = error;
		sem_post(&a->answers);
	}
	return a;
}

static void use_key(struct attempt_at *a, const char *key)
{
	char random[TOKEN_BYTES + 1];
	token_new(random);
	a->operation.key = arena_text(&a->arena, text_of(key ? key : random));
	a->operation.client_key = true;
}

static void parse_lines(struct attempt_at *a, const char *lines)
{
	char code[64];
	long long quantity;
	int used;
	while (sscanf(lines, " %63[A-Za-z-]%lld%n", code, &quantity, &used) == 2) {
		assert_true(a->operation.line_count < 64);
		struct line *line = &a->lines[a->operation.line_count++];
		line->sku = arena_text(&a->arena, text_of(code));
		line->quantity = quantity;
		lines += used;
	}
}

struct attempt_at *begin(struct house *house, enum operation_kind kind, const char *lines, const char *key)
{
	struct attempt_at *a = attempt_new(house, kind);
	parse_lines(a, lines);
	use_key(a, key);
	return submit(house, a);
}

struct attempt_at *begin_by_id(struct house *house, enum operation_kind kind, struct uuid target)
{
	struct attempt_at *a = attempt_new(house, kind);
	a->operation.target = target;
	if (kind == OPERATION_CANCEL)
		use_key(a, NULL);
	return submit(house, a);
}

int answer_count(struct attempt_at *a)
{
	int count;
	sem_getvalue(&a->answers, &count);
	return count;
}

bool is_answered(struct attempt_at *a)
{
	return answer_count(a) > 0;
}

struct verdict *await(struct attempt_at *a)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE_S;
	while (sem_timedwait(&a->answers, &until))
		if (errno != EINTR)
			fail_msg("an operation was not answered in %d s", PATIENCE_S);
	sem_post(&a->answers); /* for who asks again */
	return &a->operation.verdict;
}

void forget(struct attempt_at *a)
{
	arena_done(&a->arena);
	sem_destroy(&a->answers);
	free(a);
}

static enum lu_error end(struct attempt_at *a)
{
	enum lu_error error = await(a)->error;
	forget(a);
	return error;
}

enum lu_error run(struct house *house, enum operation_kind kind, const char *lines, const char *key)
{
	return end(begin(house, kind, lines, key));
}

enum lu_error run_by_id(struct house *house, enum operation_kind kind, struct uuid target)
{
	return end(begin_by_id(house, kind, target));
}

struct uuid hold_for(struct house *house, const char *lines, int64_t ttl_s)
{
	struct attempt_at *a = attempt_new(house, OPERATION_RESERVE);
	parse_lines(a, lines);
	use_key(a, NULL);
	a->operation.ttl_s = ttl_s;
	submit(house, a);
	assert_int_equal(await(a)->error, LU_OK);
	struct uuid id = a->operation.verdict.object_id;
	forget(a);
	return id;
}

/* --- reads: one look-up, one loop, one thread --------------------------------------------------------------------- */

struct looking {
	struct house *house;
	pthread_t thread;
	struct event_base *base;
	struct mailbox mailbox;
	struct lookup lookup;
	struct lookup_item item;
	struct arena arena;
	_Atomic bool done;
	bool until_hit, *answered;
	struct seen_item seen;
};

static void on_looked(struct lookup *lookup)
{
	struct looking *l = (struct looking *)((char *)lookup - offsetof(struct looking, lookup));
	l->seen = (struct seen_item){lookup->error, l->item.known, l->item.figures, l->item.source};
	*l->answered = true;
}

static void on_mail(evutil_socket_t fd, short what, void *context)
{
	mailbox_deliver(context);
}

static void *looking_main(void *context)
{
	struct looking *l = context;
	l->base = event_base_new();
	mailbox_init(&l->mailbox);
	struct event *mail = event_new(l->base, mailbox_fd(&l->mailbox), EV_READ | EV_PERSIST, on_mail, &l->mailbox);
	event_add(mail, NULL);
	struct reader *reader = reader_new(l->house->inventory, l->base, &l->mailbox);
	/* A connection to Redis takes a turn of the loop: look-ups before it would all be bypasses. */
	for (int i = 0; i < 20; i++) {
		struct timeval moment = {0, 1000};
		event_base_loopexit(l->base, &moment);
		event_base_dispatch(l->base);
	}
	for (int i = 0; i < (l->until_hit ? PATIENCE_S * 50 : 1); i++) {
		bool looked = false;
		l->answered = &looked;
		reader_lookup(reader, &l->lookup);
		while (!looked)
			event_base_loop(l->base, EVLOOP_ONCE);
		if (l->seen.source == LOOKUP_HIT)
			break;
		usleep(l->until_hit ? 20000 : 0);
	}
	atomic_store(&l->done, true);
	reader_free(reader);
	event_free(mail);
	mailbox_done(&l->mailbox);
	event_base_free(l->base);
	return NULL;
}

static struct looking *start_looking(struct house *house, const char *sku, bool until_hit)
{
	struct looking *l = calloc(1, sizeof *l);
	l->house = house;
	l->until_hit = until_hit;
	arena_init(&l->arena, 1024);
	l->item.sku = arena_text(&l->arena, text_of(sku));
	l->lookup = (struct lookup){.arena = &l->arena,
	                            .deadline_ns = deadline_in_ms(PATIENCE_S * 1000),
	                            .items = &l->item,
	                            .item_count = 1,
	                            .on_done = on_looked};
	assert_int_equal(pthread_create(&l->thread, NULL, looking_main, l), 0);
	return l;
}

struct looking *look_begin(struct house *house, const char *sku)
{
	return start_looking(house, sku, false);
}

struct seen_item look_until_hit(struct house *house, const char *sku)
{
	return look_await(start_looking(house, sku, true));
}

bool look_is_done(struct looking *l)
{
	return atomic_load(&l->done);
}

struct seen_item look_await(struct looking *l)
{
	pthread_join(l->thread, NULL);
	struct seen_item seen = l->seen;
	arena_done(&l->arena);
	free(l);
	return seen;
}

struct seen_item look(struct house *house, const char *sku)
{
	return look_await(look_begin(house, sku));
}

void warm(struct house *house, const char *sku)
{
	for (int i = 0; i < 200; i++)
		if (look(house, sku).source == LOOKUP_HIT)
			return;
	fail_msg("%s was never served from Redis", sku);
}

/* --- arranging ---------------------------------------------------------------------------------------------------- */

const char *sql(struct house *house, const char *text)
{
	return pg_server_ask(house->url, text);
}

int64_t sql_int(struct house *house, const char *text)
{
	return strtoll(sql(house, text), NULL, 10);
}

void make_sku(struct house *house, const char *code, int64_t on_hand)
{
	struct attempt_at *a = attempt_new(house, OPERATION_SKU_PUT);
	a->lines[0].sku = arena_text(&a->arena, text_of(code));
	a->operation.line_count = 1;
	a->operation.sku_change = ARENA_NEW(&a->arena, struct sku_change);
	*a->operation.sku_change = (struct sku_change){.on_hand_given = true, .on_hand = on_hand};
	submit(house, a);
	assert_int_equal(await(a)->error, LU_OK);
	forget(a);
}

static const char *cell_key(struct house *house, const char *sku)
{
	static char key[256];
	snprintf(key, sizeof key, "%s:%s", sql(house, "SELECT namespace FROM lastunit.cache_epoch"), sku);
	return key;
}

char *cell(struct house *house, const char *sku)
{
	char line[300];
	snprintf(line, sizeof line, "GET %s", cell_key(house, sku));
	return redis_server_command(house->redis, line);
}

void set_cell(struct house *house, const char *sku, const char *raw)
{
	char line[600];
	snprintf(line, sizeof line, "SET %s %s", cell_key(house, sku), raw);
	free(redis_server_command(house->redis, line));
}

struct pg *stranger(struct house *house)
{
	struct pg *pg = pg_new(&(struct pg_options){.url = house->url, .application_name = "stranger"});
	assert_int_equal(pg_connect(pg, deadline_in_ms(PATIENCE_S * 1000)), LU_OK);
	return pg;
}

void tell(struct pg *pg, const char *command)
{
	enum lu_error error = pg_command(pg, command, deadline_in_ms(PATIENCE_S * 1000));
	if (error)
		print_error("%s: %s\n", command, pg_error(pg)->message);
	assert_int_equal(error, LU_OK);
}

void wait_sql(struct house *house, const char *text, const char *wanted)
{
	for (int i = 0; i < PATIENCE_S * 100; i++) {
		if (!strcmp(sql(house, text), wanted))
			return;
		usleep(10000);
	}
	fail_msg("%s never answered %s", text, wanted);
}

void assert_audit(struct house *house)
{
	static const struct {
		const char *promise, *sql;
	} promises[] = {
		{"0 <= reserved <= on_hand",
	     "SELECT coalesce(string_agg(code, ' '), '') FROM lastunit.sku WHERE reserved < 0 OR reserved > on_hand"},
		{"reserved = live holds",
	     "SELECT coalesce(string_agg(code, ' '), '') FROM lastunit.sku s WHERE reserved <> (SELECT coalesce(sum(quantity)"
	     " FILTER (WHERE counted), 0) FROM lastunit.hold h WHERE h.sku_id = s.id)"},
		{"on_hand and reserved = sums of the ledger, versions dense",
	     "SELECT coalesce(string_agg(code, ' '), '') FROM lastunit.sku s, LATERAL (SELECT sum(on_hand_delta) a,"
	     " sum(reserved_delta) b, count(*) c, max(version) d FROM lastunit.ledger l WHERE l.sku_id = s.id) l"
	     " WHERE (on_hand, reserved, s.version, s.version) IS DISTINCT FROM (a, b, c, d)"},
		{"one end per reservation",
	     "SELECT coalesce(string_agg(operation_id::text, ' '), '') FROM (SELECT operation_id, sku_id FROM lastunit.ledger"
	     " WHERE kind IN (4, 5, 6) GROUP BY 1, 2 HAVING count(*) > 1) x"},
	};
	for (size_t i = 0; i < sizeof promises / sizeof *promises; i++) {
		const char *wrong = sql(house, promises[i].sql);
		if (wrong[0])
			fail_msg("%s is broken for: %s", promises[i].promise, wrong);
	}
}
