/* Instances on servers of the test's own (fleet.h).
 *
 * Failure modes: an address that somebody takes between the look and the start ends the test program; it lies below the
 * ports that connections get, so nobody does by accident. There a client that tries again while its instance is dead
 * could meet itself: a connection to a port of that range, from that port.
 */
#include "lib/fleet.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lib/command.h"

static int free_port(void)
{
	static int next;
	if (!next)
		next = 21000 + (int)(getpid() % 9000);
	for (;; next++) {
		struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)next)};
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		bool free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
		close(fd);
		if (free)
			return next++;
	}
}

/* In memory, if there is room: who is killed loses the same on any file system, and fsync costs nothing there. */
static void prefer_memory(void)
{
	struct statvfs room;
	if (statvfs("/dev/shm", &room) == 0 && (uint64_t)room.f_bavail * room.f_frsize > UINT64_C(1) << 30)
		setenv("TMPDIR", "/dev/shm", 0);
}

static void make_key(const struct fleet *fleet, const char *principal, const char *channel, const char *scopes,
                     char ret_key[64])
{
	char database[300];
	snprintf(database, sizeof database, "LASTUNIT_DATABASE_URL=%s", fleet->doors[0].database_url);
	struct command made = command_run((const char *[]){"key", "create", "--principal", principal, "--channel", channel,
	                                                   "--scopes", scopes, NULL},
	                                  (const char *[]){database, NULL});
	if (made.exit_code) {
		fprintf(stderr, "fleet: key create: %s%s", made.out, made.err);
		abort();
	}
	snprintf(ret_key, 64, "%.*s", (int)strcspn(made.out, "\n"), made.out);
	command_done(&made);
}

void fleet_serve(struct fleet *fleet, int instance)
{
	const struct service *door = &fleet->doors[instance];
	char database[200], listen[40];
	snprintf(database, sizeof database, "host=%s port=5432 user=lastunit dbname=fleet", fleet->postgres.directory);
	snprintf(listen, sizeof listen, "127.0.0.1:%d", door->port);
	const char *options[16] = {"--listen", listen, "--log-level", "error"};
	for (size_t i = 0; fleet->options && fleet->options[i] && i < 11; i++)
		options[4 + i] = fleet->options[i];
	service_beside(&fleet->processes[instance], door, database, NULL, options);
}

void fleet_open(struct fleet *fleet, int count, const char *const *options)
{
	*fleet = (struct fleet){.count = count, .options = options};
	prefer_memory();
	pg_server_start(&fleet->postgres, "max_connections = 200\n");
	redis_server_start(&fleet->redis, NULL);
	struct service door = {.output = -1};
	char url[200];
	pg_server_database(&fleet->postgres, "fleet", url);
	pg_server_ask(url, "CREATE ROLE lastunit LOGIN IN ROLE lastunit_service");
	snprintf(door.database_url, sizeof door.database_url, "%s", url);
	snprintf(door.redis_url, sizeof door.redis_url, "%s", fleet->redis.url);
	fleet->doors[0] = door;
	make_key(fleet, "owner", "admin", "read,sell,orders,stock,admin", door.key_admin);
	make_key(fleet, "site", "web", "read,sell,orders", door.key_web);
	make_key(fleet, "till", "pos", "read,sell", door.key_pos);
	for (int i = 0; i < count; i++) {
		door.port = free_port();
		snprintf(door.url, sizeof door.url, "http://127.0.0.1:%d", door.port);
		fleet->doors[i] = door;
		fleet_serve(fleet, i);
	}
}

void fleet_kill(struct fleet *fleet, int instance)
{
	kill(fleet->processes[instance].pid, SIGKILL);
	service_stop(&fleet->processes[instance]);
}

int fleet_close(struct fleet *fleet)
{
	int code = 0;
	for (int i = 0; i < fleet->count; i++) {
		int ended = service_stop(&fleet->processes[i]);
		code = code ? code : ended;
	}
	redis_server_stop(&fleet->redis);
	pg_server_done(&fleet->postgres);
	return code;
}
