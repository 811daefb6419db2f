/* Proxies that see messages (wire.h): one thread, poll(), blocking writes (both ends are ours and read).
 *
 * Happy path: bytes are gathered per connection and direction until a message is whole, then passed on as it came.
 * Failure modes: a listener or target that cannot be had ends the test program; a connection that breaks on one side is
 * closed on the other, unless something is still to be delivered on it.
 */
#include "spec/wire.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "cache/script.h"

#define LINKS_MAX 8
#define CONNECTIONS_MAX 160
#define RULES_MAX 24
#define NAME_BYTES 40

enum side { CLIENT, SERVER }; /* bytes from CLIENT go to SERVER and the other way round */

struct link {
	enum wire_kind kind;
	char listen_path[108], target_path[108];
	int listener;
	bool unplugged, mute;
};

struct rule {
	bool used, armed, answer;
	size_t link;
	char name[NAME_BYTES];
	enum wire_action action;
	char text[64];
	int64_t ms;
	struct buffer copy;
};

struct connection {
	bool used, started; /* started: PostgreSQL's first message, which has no type, has passed */
	size_t link;
	int fd[2];
	bool gone[2]; /* that side has closed */
	struct buffer in[2];
	struct rule *held[2]; /* the message at the front of in[side] stands still by this rule */
	int64_t until_ns[2];  /* then it goes by itself; 0: never */
	unsigned unanswered;  /* Redis: commands passed on without an answer yet */
	struct rule *answer;  /* waits for an answer, after so many others */
	unsigned answers_before;
};

struct wire {
	pthread_t thread;
	pthread_mutex_t mutex;
	int wake[2];
	bool stopping;
	struct link links[LINKS_MAX];
	size_t link_count;
	struct connection connections[CONNECTIONS_MAX];
	struct rule rules[RULES_MAX];
};

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
	abort();
}

static int unix_socket(const char *path, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(ret_address->sun_path, sizeof ret_address->sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		give_up("socket");
	return fd;
}

static bool write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = send(fd, bytes, size, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return false;
		if (n > 0) {
			bytes += n;
			size -= (size_t)n;
		}
	}
	return true;
}

static void wake(struct wire *w)
{
	if (write(w->wake[1], "", 1) != 1)
		give_up("wake");
}

/* --- where a message ends ----------------------------------------------------------------------------------------- */

/* The first line up to its CR LF, as a number behind its type; false: not whole. */
static bool resp_line(const char *bytes, size_t size, size_t *ret_size, long *ret_number)
{
	const char *end = memmem(bytes, size, "\r\n", 2);
	if (!end)
		return false;
	*ret_size = (size_t)(end - bytes) + 2;
	*ret_number = strtol(bytes + 1, NULL, 10);
	return true;
}

/* Bytes of the first RESP value; 0: not whole. Commands are arrays of strings, answers anything. */
static size_t resp_size(const char *bytes, size_t size)
{
	size_t line;
	long number;
	if (!size || !resp_line(bytes, size, &line, &number))
		return 0;
	if (*bytes == '$')
		return number < 0 ? line : size >= line + (size_t)number + 2 ? line + (size_t)number + 2 : 0;
	if (*bytes != '*')
		return line;
	size_t whole = line;
	for (long i = 0; i < number; i++) {
		size_t one = resp_size(bytes + whole, size - whole);
		if (!one)
			return 0;
		whole += one;
	}
	return whole;
}

static size_t postgres_size(const struct connection *c, enum side from, const char *bytes, size_t size)
{
	size_t at = from == SERVER || c->started;
	if (size < at + 4)
		return 0;
	const unsigned char *b = (const unsigned char *)bytes + at;
	size_t whole = at + ((size_t)b[0] << 24 | (size_t)b[1] << 16 | (size_t)b[2] << 8 | b[3]);
	return size >= whole ? whole : 0;
}

/* --- what it is called -------------------------------------------------------------------------------------------- */

/* The n-th string of a command. */
static bool resp_word(const char *bytes, size_t size, int n, struct text *ret)
{
	size_t at;
	long number;
	if (!resp_line(bytes, size, &at, &number))
		return false;
	for (; at < size; n--) {
		size_t line;
		if (bytes[at] != '$' || !resp_line(bytes + at, size - at, &line, &number))
			return false;
		if (n == 0) {
			*ret = (struct text){bytes + at + line, (size_t)number};
			return true;
		}
		at += line + (size_t)number + 2;
	}
	return false;
}

static const char *script_of(struct text source_or_sha)
{
	static const char *const names[] = {"cas", "intend", "publish", "invalidate"};
	const struct script *script = script_by_sha(source_or_sha);
	for (enum script_name i = 0; i < SCRIPT_COUNT; i++) {
		const struct script *one = script_get(i);
		if (script == one || (source_or_sha.size == one->source.size &&
		                      memcmp(source_or_sha.data, one->source.data, one->source.size) == 0))
			return names[i];
	}
	return "eval";
}

static void redis_name(const char *bytes, size_t size, char name[NAME_BYTES])
{
	struct text word, script;
	snprintf(name, NAME_BYTES, "?");
	if (!resp_word(bytes, size, 0, &word))
		return;
	snprintf(name, NAME_BYTES, "%.*s", (int)(word.size < 30 ? word.size : 30), word.data);
	for (char *c = name; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	if (strcmp(name, "exec") == 0)
		strcpy(name, "read"); /* the only transaction there is: here Redis does it, and answers */
	if (strncmp(name, "eval", 4) != 0 || !resp_word(bytes, size, 1, &script))
		return;
	snprintf(name, NAME_BYTES, "%s", script_of(script));
	if (strcmp(name, "cas") == 0)
		strcpy(name, memmem(bytes, size, "\r\nV|", 4) ? "fill" : "ticket");
}

static void postgres_name(const char *bytes, size_t size, char name[NAME_BYTES])
{
	snprintf(name, NAME_BYTES, "?");
	if (*bytes == 'Q') {
		snprintf(name, NAME_BYTES, "%.*s", (int)strcspn(bytes + 5, " ;"), bytes + 5);
		for (char *c = name; *c; c++)
			*c = (char)tolower((unsigned char)*c);
	} else if (*bytes == 'B') {
		const char *portal_end = memchr(bytes + 5, '\0', size - 5);
		if (portal_end)
			snprintf(name, NAME_BYTES, "%s", portal_end + 1);
	}
}

/* --- connections -------------------------------------------------------------------------------------------------- */

static void connection_close(struct connection *c)
{
	for (int side = 0; side < 2; side++) {
		if (c->fd[side] >= 0)
			close(c->fd[side]);
		buffer_done(&c->in[side]);
	}
	*c = (struct connection){.fd = {-1, -1}};
}

static void accept_one(struct wire *w, size_t link)
{
	struct link *l = &w->links[link];
	struct sockaddr_un address;
	int client = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
	if (client < 0)
		return;
	int server = unix_socket(l->target_path, &address);
	for (int i = 0; i < CONNECTIONS_MAX; i++) {
		if (w->connections[i].used)
			continue;
		if (l->unplugged || connect(server, (struct sockaddr *)&address, sizeof address) != 0)
			break;
		w->connections[i] = (struct connection){.used = true, .link = link, .fd = {client, server}};
		return;
	}
	close(server);
	close(client);
}

static void cut_front(struct buffer *in, size_t size)
{
	memmove(in->data, in->data + size, in->size - size);
	in->size -= size;
}

static struct rule *rule_for(struct wire *w, const struct connection *c, const char *name)
{
	for (int i = 0; i < RULES_MAX; i++) {
		struct rule *r = &w->rules[i];
		if (r->used && r->armed && r->link == c->link && strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

enum fate { PASS, STAND, SWALLOW, CLOSE };

static enum fate apply(struct connection *c, enum side from, struct rule *r, const char *bytes, size_t size)
{
	r->armed = false;
	switch (r->action) {
	case WIRE_HOLD:
	case WIRE_DELAY:
		c->held[from] = r;
		c->until_ns[from] = r->action == WIRE_DELAY ? deadline_in_ms(r->ms) : 0;
		return STAND;
	case WIRE_LOSE:
		return SWALLOW;
	case WIRE_CUT:
		return CLOSE;
	case WIRE_COPY:
		buffer_clear(&r->copy);
		buffer_add(&r->copy, bytes, size);
		return PASS;
	case WIRE_TURN: {
		size_t length = 4 + strlen(r->text) + 1;
		char query[80] = {'Q', 0, 0, 0, (char)length};
		strcpy(query + 5, r->text);
		return write_all(c->fd[!from], query, 1 + length) ? SWALLOW : CLOSE;
	}
	}
	return PASS;
}

static enum fate fate_of_request(struct wire *w, struct connection *c, const char *bytes, size_t size)
{
	bool redis = w->links[c->link].kind == WIRE_REDIS;
	char name[NAME_BYTES];
	if (!redis && !c->started) {
		c->started = true;
		return PASS;
	}
	if (redis)
		redis_name(bytes, size, name);
	else
		postgres_name(bytes, size, name);
	struct rule *r = rule_for(w, c, name);
	if (r && r->answer && !c->answer) {
		r->armed = false;
		c->answer = r;
		c->answers_before = c->unanswered;
		r = NULL;
	}
	enum fate fate = r && !r->answer ? apply(c, CLIENT, r, bytes, size) : PASS;
	if (redis && (fate == PASS || fate == STAND))
		c->unanswered++;
	return fate;
}

static enum fate fate_of_answer(struct wire *w, struct connection *c, const char *bytes, size_t size)
{
	if (c->unanswered)
		c->unanswered--;
	if (!c->answer)
		return PASS;
	if (c->answers_before) {
		c->answers_before--;
		return PASS;
	}
	struct rule *r = c->answer;
	c->answer = NULL;
	return apply(c, SERVER, r, bytes, size);
}

/* Passes on whatever is whole and may go. False: the connection is over. */
static bool forward(struct wire *w, struct connection *c, enum side from)
{
	struct buffer *in = &c->in[from];
	while (!c->held[from] && in->size) {
		size_t size = w->links[c->link].kind == WIRE_REDIS ? resp_size(in->data, in->size)
		                                                   : postgres_size(c, from, in->data, in->size);
		if (!size)
			break;
		enum fate fate = from == CLIENT ? fate_of_request(w, c, in->data, size) : fate_of_answer(w, c, in->data, size);
		if (fate == CLOSE || (fate == PASS && !c->gone[!from] && !write_all(c->fd[!from], in->data, size)))
			return false;
		if (fate != STAND)
			cut_front(in, size);
	}
	return true;
}

/* One side has closed: so does the other, when nothing is left to deliver to it. */
static bool is_over(struct connection *c)
{
	for (int side = 0; side < 2; side++)
		if (c->gone[side] && !c->held[side])
			return true;
	return false;
}

static void read_side(struct wire *w, struct connection *c, enum side side)
{
	static char bytes[1 << 16];
	ssize_t n = recv(c->fd[side], bytes, sizeof bytes, 0);
	if (n > 0)
		buffer_add(&c->in[side], bytes, (size_t)n);
	else
		c->gone[side] = true;
	if (!forward(w, c, side) || is_over(c))
		connection_close(c);
}

static void go_on(struct wire *w, struct connection *c, enum side side)
{
	struct buffer *in = &c->in[side];
	size_t size = w->links[c->link].kind == WIRE_REDIS ? resp_size(in->data, in->size)
	                                                   : postgres_size(c, side, in->data, in->size);
	c->held[side] = NULL;
	bool good = c->gone[!side] || write_all(c->fd[!side], in->data, size);
	cut_front(in, size);
	if (good && c->gone[side]) /* the receiver has read it when it has closed in turn */
		shutdown(c->fd[!side], SHUT_WR);
	if (!good || !forward(w, c, side) || (is_over(c) && !c->gone[side]))
		connection_close(c);
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

static int poll_fill(struct wire *w, struct pollfd *polled)
{
	int64_t next_ns = DEADLINE_NONE;
	polled[0] = (struct pollfd){.fd = w->wake[0], .events = POLLIN};
	for (size_t i = 0; i < LINKS_MAX; i++)
		polled[1 + i] = (struct pollfd){.fd = i < w->link_count && !w->links[i].mute ? w->links[i].listener : -1,
		                                .events = POLLIN};
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		for (int side = 0; side < 2; side++) {
			const struct connection *c = &w->connections[i];
			bool watched = c->used && !c->gone[side] && !w->links[c->link].mute;
			polled[1 + LINKS_MAX + 2 * i + side] = (struct pollfd){.fd = watched ? c->fd[side] : -1, .events = POLLIN};
			if (c->used && c->held[side] && c->until_ns[side] && c->until_ns[side] < next_ns)
				next_ns = c->until_ns[side];
		}
	return next_ns == DEADLINE_NONE ? -1 : deadline_left_ms(next_ns);
}

static void serve(struct wire *w, const struct pollfd *polled)
{
	char byte;
	if (polled[0].revents && read(w->wake[0], &byte, 1) < 0)
		give_up("wake");
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		for (int side = 0; side < 2; side++) {
			struct connection *c = &w->connections[i];
			const struct pollfd *p = &polled[1 + LINKS_MAX + 2 * i + side];
			/* It may have been made mute since poll() was called. */
			if (p->revents && c->used && c->fd[side] == p->fd && !w->links[c->link].mute)
				read_side(w, c, (enum side)side);
			if (c->used && c->held[side] && c->until_ns[side] && clock_boottime_ns() >= c->until_ns[side])
				go_on(w, c, (enum side)side);
		}
	for (size_t i = 0; i < w->link_count; i++)
		if (polled[1 + i].revents && !w->links[i].mute)
			accept_one(w, i);
}

static void *wire_main(void *context)
{
	struct wire *w = context;
	static struct pollfd polled[1 + LINKS_MAX + 2 * CONNECTIONS_MAX];
	pthread_mutex_lock(&w->mutex);
	while (!w->stopping) {
		int timeout_ms = poll_fill(w, polled);
		pthread_mutex_unlock(&w->mutex);
		poll(polled, sizeof polled / sizeof *polled, timeout_ms);
		pthread_mutex_lock(&w->mutex);
		serve(w, polled);
	}
	pthread_mutex_unlock(&w->mutex);
	return NULL;
}

/* --- what the test calls ------------------------------------------------------------------------------------------ */

struct wire *wire_new(void)
{
	struct wire *w = calloc(1, sizeof *w);
	if (!w || pipe(w->wake) != 0)
		give_up("wire");
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		w->connections[i].fd[0] = w->connections[i].fd[1] = -1;
	pthread_mutex_init(&w->mutex, NULL);
	if (pthread_create(&w->thread, NULL, wire_main, w) != 0)
		give_up("thread");
	return w;
}

void wire_free(struct wire *w)
{
	pthread_mutex_lock(&w->mutex);
	w->stopping = true;
	pthread_mutex_unlock(&w->mutex);
	wake(w);
	pthread_join(w->thread, NULL);
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		if (w->connections[i].used)
			connection_close(&w->connections[i]);
	for (size_t i = 0; i < w->link_count; i++) {
		close(w->links[i].listener);
		unlink(w->links[i].listen_path);
	}
	for (int i = 0; i < RULES_MAX; i++)
		buffer_done(&w->rules[i].copy);
	close(w->wake[0]);
	close(w->wake[1]);
	pthread_mutex_destroy(&w->mutex);
	free(w);
}

size_t wire_link(struct wire *w, enum wire_kind kind, const char *listen_path, const char *target_path)
{
	struct sockaddr_un address;
	pthread_mutex_lock(&w->mutex);
	if (w->link_count == LINKS_MAX)
		give_up("too many links");
	struct link *l = &w->links[w->link_count];
	*l = (struct link){.kind = kind};
	snprintf(l->listen_path, sizeof l->listen_path, "%s", listen_path);
	snprintf(l->target_path, sizeof l->target_path, "%s", target_path);
	l->listener = unix_socket(listen_path, &address);
	unlink(listen_path);
	if (bind(l->listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(l->listener, 64) != 0)
		give_up(listen_path);
	size_t number = w->link_count++;
	pthread_mutex_unlock(&w->mutex);
	wake(w);
	return number;
}

static void cut_link(struct wire *w, size_t link)
{
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		if (w->connections[i].used && w->connections[i].link == link)
			connection_close(&w->connections[i]);
}

void wire_point(struct wire *w, size_t link, const char *target_path)
{
	pthread_mutex_lock(&w->mutex);
	snprintf(w->links[link].target_path, sizeof w->links[link].target_path, "%s", target_path);
	cut_link(w, link);
	pthread_mutex_unlock(&w->mutex);
	wake(w);
}

void wire_plug(struct wire *w, size_t link, bool plugged)
{
	pthread_mutex_lock(&w->mutex);
	w->links[link].unplugged = !plugged;
	if (!plugged)
		cut_link(w, link);
	pthread_mutex_unlock(&w->mutex);
	wake(w);
}

void wire_mute(struct wire *w, size_t link, bool mute)
{
	pthread_mutex_lock(&w->mutex);
	w->links[link].mute = mute;
	pthread_mutex_unlock(&w->mutex);
	wake(w);
}

static struct rule *rule_find(struct wire *w, size_t link, const char *name, bool answer)
{
	for (int i = 0; i < RULES_MAX; i++) {
		struct rule *r = &w->rules[i];
		if (r->used && r->link == link && r->answer == answer && strcmp(r->name, name) == 0)
			return r;
	}
	return NULL;
}

void wire_rule(struct wire *w, size_t link, const char *name, bool answer, enum wire_action action, const char *text,
               int64_t ms)
{
	pthread_mutex_lock(&w->mutex);
	struct rule *r = rule_find(w, link, name, answer);
	for (int i = 0; !r && i < RULES_MAX; i++)
		if (!w->rules[i].used)
			r = &w->rules[i];
	if (!r)
		give_up("too many rules");
	struct buffer copy = r->copy;
	*r = (struct rule){
		.used = true, .armed = true, .answer = answer, .link = link, .action = action, .ms = ms, .copy = copy};
	buffer_clear(&r->copy);
	snprintf(r->name, sizeof r->name, "%s", name);
	snprintf(r->text, sizeof r->text, "%s", text ? text : "");
	pthread_mutex_unlock(&w->mutex);
}

bool wire_met(struct wire *w, size_t link, const char *name, bool answer)
{
	pthread_mutex_lock(&w->mutex);
	const struct rule *r = rule_find(w, link, name, answer);
	bool met = r && !r->armed;
	for (int i = 0; met && r->answer && i < CONNECTIONS_MAX; i++)
		met = w->connections[i].answer != r; /* its answer has not come yet */
	pthread_mutex_unlock(&w->mutex);
	return met;
}

/* Once more, on a connection of its own, up to the end of its answer. */
static bool send_copy(const char *target_path, const struct buffer *copy)
{
	struct sockaddr_un address;
	struct buffer answer = {0};
	char bytes[4096];
	int fd = unix_socket(target_path, &address);
	bool good = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && write_all(fd, copy->data, copy->size);
	while (good && !(answer.size && resp_size(answer.data, answer.size))) {
		ssize_t n = recv(fd, bytes, sizeof bytes, 0);
		good = n > 0;
		if (good)
			buffer_add(&answer, bytes, (size_t)n);
	}
	buffer_done(&answer);
	close(fd);
	return good;
}

bool wire_deliver(struct wire *w, size_t link, const char *name, bool answer)
{
	bool found = false;
	struct buffer copy = {0};
	char target[108] = "";
	pthread_mutex_lock(&w->mutex);
	struct rule *r = rule_find(w, link, name, answer);
	for (int i = 0; r && i < CONNECTIONS_MAX; i++)
		for (int side = 0; side < 2; side++)
			if (w->connections[i].used && w->connections[i].held[side] == r) {
				go_on(w, &w->connections[i], (enum side)side);
				found = true;
			}
	if (r && r->copy.size) {
		buffer_add(&copy, r->copy.data, r->copy.size);
		memcpy(target, w->links[link].target_path, sizeof target);
	}
	pthread_mutex_unlock(&w->mutex);
	wake(w);
	if (copy.size)
		found = send_copy(target, &copy);
	buffer_done(&copy);
	return found;
}

void wire_reset(struct wire *w)
{
	pthread_mutex_lock(&w->mutex);
	for (int i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *c = &w->connections[i];
		c->answer = NULL;
		for (int side = 0; side < 2; side++)
			if (c->used && c->held[side])
				go_on(w, c, (enum side)side);
	}
	for (int i = 0; i < RULES_MAX; i++)
		w->rules[i].used = w->rules[i].armed = false;
	for (size_t i = 0; i < w->link_count; i++)
		w->links[i].unplugged = w->links[i].mute = false;
	pthread_mutex_unlock(&w->mutex);
	wake(w);
}
