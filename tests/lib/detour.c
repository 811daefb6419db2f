/* An instance behind proxies (detour.h). */
#include "lib/detour.h"

#include <signal.h>

struct detour detour;

void detour_serve_again(void)
{
	char url[300], redis[200], *to = url + sprintf(url, "postgresql://lastunit@");
	for (const char *from = detour.directory; *from; from++)
		to += sprintf(to, *from == '/' ? "%%2F" : "%c", *from);
	sprintf(to, ":5432/lastunit");
	snprintf(redis, sizeof redis, "unix://%s/redis", detour.directory);
	shop_beside(&detour.service, url, redis);
}

void detour_open(void)
{
	assert_false(detour.open);
	strcpy(detour.directory, "/tmp/lastunit-detour-XXXXXX");
	assert_non_null(mkdtemp(detour.directory));
	char path[128], target[160];
	snprintf(path, sizeof path, "%s/.s.PGSQL.5432", detour.directory);
	snprintf(target, sizeof target, "%s", shop_postgres_socket());
	proxy_start(&detour.postgres, path, target);
	snprintf(path, sizeof path, "%s/redis", detour.directory);
	proxy_start(&detour.redis, path, shop_redis_socket());
	detour.open = true;
	detour_serve_again();
}

void detour_kill(void)
{
	kill(detour.service.pid, SIGKILL);
	kill(detour.service.pid, SIGCONT);
	service_stop(&detour.service);
}

void detour_close(void)
{
	if (!detour.open)
		return;
	detour.open = false;
	if (detour.service.pid) {
		kill(detour.service.pid, SIGCONT); /* stopped by a test that failed */
		service_stop(&detour.service);
	}
	proxy_stop(&detour.postgres);
	proxy_stop(&detour.redis);
	rmdir(detour.directory);
}

int detour_audit(void **state)
{
	detour_close();
	return shop_audit(state);
}
