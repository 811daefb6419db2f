/* `lastunit key`: API keys, from the command line of whoever owns the database.
 *
 * Happy path: connect, change, wait until every instance must have heard of it, answer. Each instance reloads its keys
 * with its read lease, so what was committed L(1+rho) ago holds everywhere; before that nothing is said.
 * Failure modes: no such principal or key (1); a principal of another channel (1); PostgreSQL cannot be reached (3).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "inventory/epoch.h"
#include "store/epoch.h"
#include "store/key.h"
#include "store/principal.h"

#define CALL_MS 10000
#define REVOKE_MS 60000 /* to reach PostgreSQL once more after a grace */
#define MARGIN_MS 50
#define GRACE_S_MAX (7 * 86400)

static const struct manual manual = {
	.name = "key",
	.usage = "key create|list|rotate|revoke|set|show [options]",
	.about =
		"create   makes a key (and its principal, a client of the service), and prints it: it is shown this once\n"
		"list     shows principals, keys by their first characters, times, scopes, and the origins of publishable keys;\n"
		"         with --json the times to the millisecond\n"
		"rotate   makes a new key with the channel and scopes of the principal's newest, and names the old ones; with\n"
		"         --grace it waits so long and then revokes them\n"
		"revoke   ends a key, named as `list` shows it, by its first 11 characters, or whole; it is never printed. Where\n"
		"         two are listed alike neither is ended: --principal tells them apart, or the whole key\n"
		"set      changes settings of a principal: what it neither sees nor sells, and how much it may hold\n"
		"show     shows them, of one principal or of all\n\n"
		"A caller is a chat, a phone, a skill's user, or whom a site names by `caller` when it holds; agents over MCP are\n"
		"not told apart, so the principal of --public-mcp wants --holds-max and --held-units-max.\n"
		"A change is answered when it holds on every instance, about a second later (the --lease-ms of `serve`).\n"
		"Scopes: read, sell, orders (other principals' reservations and checkouts), stock, admin.\n"
		"Channels: web, telegram, agent, voice, marketplace, pos, admin.\n",
	.shared = "database_url log_level",
	.examples =
		"  lastunit key create --principal site --channel web --scopes read,sell,orders\n"
		"  lastunit key create --principal page --channel web --scopes read --origins https://shop.example\n"
		"  lastunit key list --json\n"
		"  lastunit key rotate site --grace 3600\n"
		"  lastunit key revoke lu_Ab3dEf9K\n"
		"  lastunit key set bazaar --buffer 2 --holds-max 500\n"
		"  lastunit key set till --may-use-safety-stock yes\n"
		"  lastunit key show bazaar\n",
	.exit_codes =
		"  0  done\n"
		"  1  refused: no such principal or key, or the principal has another channel\n"
		"  2  wrong usage or configuration, a schema of another version, a user who may not\n"
		"  3  PostgreSQL cannot be reached\n",
	.positionals_max = 1000, /* too many are refused below, without being repeated: a word may be a key */
};

/* Told from what was given by their addresses. */
static const char channel_default[] = "web", scopes_default[] = "read,sell";

struct key_command {
	struct config config;
	struct pg *pg;
	struct arena arena;
	const char *principal, *channel, *scopes, *origins, *prefix;
	const char *may_use_safety_stock;
	struct principal_change change;
	int64_t grace_s;
	bool json;
};

static int fail_store(const struct key_command *command, enum lu_error error)
{
	const struct pg_error *said = pg_error(command->pg);
	if (strcmp(said->sqlstate, "42501") == 0) /* insufficient_privilege: it is the service's user, as a rule */
		return cmd_fail(&manual, EXIT_USAGE, "%s: use the owner's --database-url", said->message);
	bool lost = !pg_connected(command->pg);
	return cmd_fail(&manual, lost ? EXIT_BACKEND : EXIT_FAILED, "%s: %s", lu_error_code(error), said->message);
}

/* Until the last lease given before this moment has run out; without a session, which PostgreSQL or a firewall may end
 * while it is idle. */
static void wait_until_everywhere(struct key_command *command)
{
	/* L as the epoch has it: no instance believes its keys for longer. */
	struct epoch_row row;
	enum lu_error error = epoch_lease_read(command->pg, &command->arena, deadline_in_ms(CALL_MS), &row);
	int64_t lease_ms = error ? CONFIG_MAX_lease_ms : row.lease_ms;
	pg_close(command->pg);
	clock_sleep_until(deadline_in_ms(MARGIN_MS) + epoch_drifted_ns(lease_ms * NS_PER_MS));
}

static enum lu_error list(struct key_command *command, struct key_row **ret_rows, size_t *ret_count)
{
	struct text principal = *command->principal ? text_of(command->principal) : (struct text){0};
	return key_list(command->pg, &command->arena, principal, deadline_in_ms(CALL_MS), ret_rows, ret_count);
}

static const char *scopes_format(unsigned scopes, char out[64])
{
	char *to = out;
	*to = 0;
	for (unsigned bit = SCOPE_READ; bit <= SCOPE_ADMIN; bit <<= 1)
		if (scopes & bit)
			to += sprintf(to, "%s%s", to == out ? "" : ",", scope_name(bit));
	return out;
}

static int run_create(struct key_command *command)
{
	enum channel channel;
	unsigned scopes;
	if (!*command->principal)
		return cmd_fail(&manual, EXIT_USAGE, "create needs --principal NAME");
	if (!channel_parse(text_of(command->channel), &channel) || channel == CHANNEL_SQL || channel == CHANNEL_SYSTEM)
		return cmd_fail(&manual, EXIT_USAGE, "--channel is web, telegram, agent, voice, marketplace, pos or admin");
	if (!scopes_parse(text_of(command->scopes), &scopes))
		return cmd_fail(&manual, EXIT_USAGE, "--scopes is a list of read, sell, orders, stock, admin, e.g. read,sell");
	if (text_check_key(text_of(command->principal)))
		return cmd_fail(&manual, EXIT_USAGE, "--principal is text in UTF-8 without control characters");
	char secret[KEY_SECRET_BYTES + 1];
	if (*command->origins && scopes != SCOPE_READ)
		return cmd_fail(&manual, EXIT_USAGE, "a publishable key (--origins) may only read: --scopes read");
	if (!key_origins_are_valid(text_of(command->origins)))
		return cmd_fail(
			&manual, EXIT_USAGE,
			"--origins are separated by blanks and look like https://shop.example or http://localhost:3000, "
			"which is how browsers spell them: small letters, no path, no port that goes without saying");
	enum lu_error error = key_create(command->pg, text_of(command->principal), channel, scopes,
	                                 text_of(command->origins), deadline_in_ms(CALL_MS), secret);
	if (error == LU_INVALID_FIELD)
		return cmd_fail(&manual, EXIT_FAILED, "%s has another channel: a principal keeps the one it has",
		                command->principal);
	if (error)
		return fail_store(command, error);
	wait_until_everywhere(command);
	printf("%s\n", secret);
	return EXIT_OK;
}

static void print_json(const struct key_row *rows, size_t count)
{
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	char scopes[64];
	json_array_open(&w);
	for (size_t i = 0; i < count; i++) {
		json_object_open(&w);
		json_key(&w, "principal");
		json_put_text(&w, rows[i].principal);
		json_member_string(&w, "channel", channel_name(rows[i].channel));
		json_member_string(&w, "scopes", scopes_format(rows[i].scopes, scopes));
		json_key(&w, "prefix");
		json_put_text(&w, rows[i].prefix);
		json_key(&w, "origins");
		if (rows[i].origins.size)
			json_put_text(&w, rows[i].origins);
		else
			json_put_null(&w);
		json_key(&w, "created_at");
		json_put_time(&w, rows[i].created_us);
		json_key(&w, "revoked_at");
		if (rows[i].revoked_us)
			json_put_time(&w, rows[i].revoked_us);
		else
			json_put_null(&w);
		json_object_close(&w);
	}
	json_array_close(&w);
	printf("%.*s\n", (int)out.size, out.data);
	buffer_done(&out);
}

/* In characters, as a terminal shows most of them. */
static int width_of(struct text text)
{
	int width = 0;
	for (size_t i = 0; i < text.size; i++)
		width += ((unsigned char)text.data[i] & 0xc0) != 0x80;
	return width;
}

static void time_format(int64_t at_us, char out[25])
{
	clock_format(at_us, out);
	out[strlen("2026-11-29")] = ' ';
	out[strlen("2026-11-29 14:32:05")] = '\0';
}

/* As wide as it must be, for a terminal that is. Only a key that may merely read has origins: they
 * stand behind its scope. */
static void print_list(const struct key_row *rows, size_t count)
{
	int width = (int)strlen("principal"), revoked_width = (int)strlen("revoked (UTC)");
	for (size_t i = 0; i < count; i++) {
		width = width_of(rows[i].principal) > width ? width_of(rows[i].principal) : width;
		revoked_width = rows[i].revoked_us ? (int)strlen("2026-11-29 14:32:05") : revoked_width;
	}
	printf("%-*s %-11s %-11s %-19s %-*s %s\n", width, "principal", "channel", "key", "created (UTC)", revoked_width,
	       "revoked (UTC)", "scopes, origins");
	for (size_t i = 0; i < count; i++) {
		const struct key_row *row = &rows[i];
		char scopes[64], created[25], revoked[25] = "-";
		time_format(row->created_us, created);
		if (row->revoked_us)
			time_format(row->revoked_us, revoked);
		printf("%.*s%*s %-11s %-11.*s %-19s %-*s %s%s%.*s\n", (int)row->principal.size, row->principal.data,
		       width - width_of(row->principal), "", channel_name(row->channel), (int)row->prefix.size,
		       row->prefix.data, created, revoked_width, revoked, scopes_format(row->scopes, scopes),
		       row->origins.size ? " " : "", (int)row->origins.size, row->origins.size ? row->origins.data : "");
	}
}

static int run_list(struct key_command *command)
{
	struct key_row *rows;
	size_t count;
	enum lu_error error = list(command, &rows, &count);
	if (error)
		return fail_store(command, error);
	if (command->json) {
		print_json(rows, count);
		return EXIT_OK;
	}
	print_list(rows, count);
	return EXIT_OK;
}

static void print_still_valid(const struct key_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (!rows[i].revoked_us)
			fprintf(stderr, "still valid: lastunit key revoke %.*s\n", (int)rows[i].prefix.size, rows[i].prefix.data);
}

/* The old keys are those that lived before the new one was made: a rotation that runs at the same time keeps its own.
 * PostgreSQL may be restarting when the time has come: nobody looks at a command that was given an hour to wait. */
static int revoke_old(struct key_command *command, const struct key_row *rows, size_t count)
{
	clock_sleep_until(deadline_in_ms(command->grace_s * 1000));
	enum lu_error error = cmd_connect_until(command->pg, deadline_in_ms(REVOKE_MS));
	size_t done = 0;
	while (!error && done < count) {
		if (!rows[done].revoked_us)
			error = key_revoke_listed(command->pg, &rows[done], deadline_in_ms(CALL_MS));
		done += !error;
	}
	if (error) {
		int code = fail_store(command, error);
		print_still_valid(rows + done, count - done);
		return code;
	}
	wait_until_everywhere(command);
	return EXIT_OK;
}

static int run_rotate(struct key_command *command)
{
	if (!*command->principal)
		return cmd_fail(&manual, EXIT_USAGE, "rotate needs the principal's name: lastunit key rotate NAME");
	struct key_row *rows;
	size_t count, live = 0;
	enum lu_error error = list(command, &rows, &count);
	if (error)
		return fail_store(command, error);
	if (!count)
		return cmd_fail(&manual, EXIT_FAILED, "there is no principal %s, or it never had a key", command->principal);
	const struct key_row *newest = &rows[0];
	for (size_t i = 1; i < count; i++)
		if (rows[i].created_us > newest->created_us)
			newest = &rows[i];
	char secret[KEY_SECRET_BYTES + 1];
	error = key_create(command->pg, newest->principal, newest->channel, newest->scopes, newest->origins,
	                   deadline_in_ms(CALL_MS), secret);
	if (error == LU_INVALID_FIELD) /* made by a release that let it pass */
		return cmd_fail(
			&manual, EXIT_FAILED,
			"its name or the origins of its newest key (%.*s) would be refused today: `lastunit key create` "
			"a new one, and revoke this",
			(int)newest->origins.size, newest->origins.size ? newest->origins.data : "");
	if (error)
		return fail_store(command, error);
	wait_until_everywhere(command);
	printf("%s\n", secret);
	fflush(stdout);
	for (size_t i = 0; i < count; i++)
		live += rows[i].revoked_us == 0;
	if (command->grace_s >= 0) {
		int code = revoke_old(command, rows, count);
		if (!code)
			fprintf(stderr, "revoked %zu old %s\n", live, text_plural((int64_t)live, "key", "keys"));
		return code;
	}
	print_still_valid(rows, count);
	return EXIT_OK;
}

/* Why nothing was revoked. What was given may be a secret: of it only what `list` shows is repeated. */
static int fail_unknown_key(struct key_command *command, struct text given)
{
	struct text shown = {given.data, given.size < KEY_PREFIX_BYTES ? given.size : KEY_PREFIX_BYTES};
	struct key_row *rows;
	size_t count;
	enum lu_error error = list(command, &rows, &count);
	if (error)
		return fail_store(command, error);
	if (given.size < 3 || memcmp(given.data, "lu_", 3) != 0)
		return cmd_fail(&manual, EXIT_FAILED, "that is no key: they begin with lu_; `lastunit key list` shows them");
	for (size_t i = 0; i < count; i++) {
		char at[25];
		if (!text_equal(rows[i].prefix, shown))
			continue;
		if (!rows[i].revoked_us)
			return cmd_fail(&manual, EXIT_FAILED,
			                "%.*s is listed, but the rest is not that key's: give these 11 characters", (int)shown.size,
			                shown.data);
		clock_format(rows[i].revoked_us, at);
		return cmd_fail(&manual, EXIT_FAILED, "%.*s was revoked before, at %s", (int)shown.size, shown.data, at);
	}
	return cmd_fail(&manual, EXIT_FAILED, "no key%s%s is listed as %.*s%s; `lastunit key list` shows them",
	                *command->principal ? " of " : "", command->principal, (int)shown.size, shown.data,
	                shown.size < KEY_PREFIX_BYTES ? ", which is too short: it takes 11 characters" : "");
}

/* Publishable keys have four characters of their own in what is listed. */
static int fail_listed_alike(struct key_command *command, struct text given, size_t count)
{
	struct key_row *rows;
	size_t row_count;
	enum lu_error error = list(command, &rows, &row_count);
	if (error)
		return fail_store(command, error);
	struct buffer names = {0};
	struct text last = {0};
	bool several = false;
	for (size_t i = 0; i < row_count; i++) {
		/* In the order of their principals. */
		if (rows[i].revoked_us || !text_equal(rows[i].prefix, given) || text_equal(rows[i].principal, last))
			continue;
		several |= last.data != NULL;
		last = rows[i].principal;
		buffer_add_string(&names, names.size ? ", of " : "of ");
		buffer_add_text(&names, last);
	}
	int code = cmd_fail(&manual, EXIT_FAILED,
	                    "%zu keys are listed as %.*s, %.*s, and none was revoked: give %sthe whole key", count,
	                    (int)given.size, given.data, (int)names.size, names.data,
	                    several ? "--principal as well, or " : "");
	buffer_done(&names);
	return code;
}

static int run_revoke(struct key_command *command)
{
	struct text key = text_of(command->prefix);
	if (!key.size)
		return cmd_fail(&manual, EXIT_USAGE, "revoke needs the key, as `lastunit key list` shows it or whole");
	struct text principal = *command->principal ? text_of(command->principal) : (struct text){0};
	size_t count = 0;
	enum lu_error error = key_revoke(command->pg, key, principal, deadline_in_ms(CALL_MS), &count);
	if (error)
		return fail_store(command, error);
	if (!count)
		return fail_unknown_key(command, key);
	if (count > 1)
		return fail_listed_alike(command, key, count);
	wait_until_everywhere(command);
	printf("revoked 1 key: %.*s\n", KEY_PREFIX_BYTES, key.data);
	return EXIT_OK;
}

/* --- settings ----------------------------------------------------------------------------------------------------- */

static void put_cap(struct json_writer *w, const char *name, int64_t cap)
{
	json_key(w, name);
	if (cap)
		json_put_int(w, cap);
	else
		json_put_null(w);
}

static void print_settings_json(const struct principal_row *rows, size_t count)
{
	struct buffer out = {0};
	struct json_writer w = json_writer(&out);
	json_array_open(&w);
	for (size_t i = 0; i < count; i++) {
		const struct principal_settings *settings = &rows[i].settings;
		json_object_open(&w);
		json_key(&w, "principal");
		json_put_text(&w, rows[i].name);
		json_member_string(&w, "channel", channel_name(rows[i].channel));
		json_member_int(&w, "buffer", settings->buffer);
		json_member_bool(&w, "may_use_safety_stock", settings->may_use_safety_stock);
		put_cap(&w, "holds_max", settings->holds_max);
		put_cap(&w, "held_units_max", settings->held_units_max);
		put_cap(&w, "caller_holds_max", settings->caller_holds_max);
		put_cap(&w, "caller_held_units_max", settings->caller_held_units_max);
		json_object_close(&w);
	}
	json_array_close(&w);
	printf("%.*s\n", (int)out.size, out.data);
	buffer_done(&out);
}

static const char *cap_format(int64_t cap, char out[24])
{
	if (cap)
		snprintf(out, 24, "%" PRId64, cap);
	else
		strcpy(out, "-");
	return out;
}

static int run_show(struct key_command *command)
{
	struct text name = *command->principal ? text_of(command->principal) : (struct text){0};
	struct principal_row *rows;
	size_t count;
	enum lu_error error = principal_list(command->pg, &command->arena, name, deadline_in_ms(CALL_MS), &rows, &count);
	if (error)
		return fail_store(command, error);
	if (name.data && !count)
		return cmd_fail(&manual, EXIT_FAILED, "there is no principal %s", command->principal);
	if (command->json) {
		print_settings_json(rows, count);
		return EXIT_OK;
	}
	printf("%-20s %-12s %8s %8s %10s %15s %17s %22s\n", "principal", "channel", "buffer", "safety", "holds_max",
	       "held_units_max", "caller_holds_max", "caller_held_units_max");
	for (size_t i = 0; i < count; i++) {
		const struct principal_settings *settings = &rows[i].settings;
		char caps[4][24];
		printf("%-20.*s %-12s %8" PRId64 " %8s %10s %15s %17s %22s\n", (int)rows[i].name.size, rows[i].name.data,
		       channel_name(rows[i].channel), settings->buffer, settings->may_use_safety_stock ? "may use" : "-",
		       cap_format(settings->holds_max, caps[0]), cap_format(settings->held_units_max, caps[1]),
		       cap_format(settings->caller_holds_max, caps[2]), cap_format(settings->caller_held_units_max, caps[3]));
	}
	return EXIT_OK;
}

static bool parse_yes(const char *word, int64_t *ret_value)
{
	*ret_value = strcmp(word, "yes") == 0;
	return *ret_value || strcmp(word, "no") == 0;
}

static int run_set(struct key_command *command)
{
	static const struct principal_change nothing = PRINCIPAL_UNCHANGED;
	struct principal_change *change = &command->change;
	bool known = false;
	if (!*command->principal)
		return cmd_fail(&manual, EXIT_USAGE, "set needs the principal's name: lastunit key set NAME --buffer 2");
	if (*command->may_use_safety_stock && !parse_yes(command->may_use_safety_stock, &change->may_use_safety_stock))
		return cmd_fail(&manual, EXIT_USAGE, "--may-use-safety-stock is yes or no");
	if (memcmp(change, &nothing, sizeof nothing) == 0)
		return cmd_fail(&manual, EXIT_USAGE, "set needs at least one setting, e.g. --buffer 2");
	enum lu_error error = principal_change(command->pg, text_of(command->principal), change, deadline_in_ms(CALL_MS),
	                                       &known);
	if (error)
		return fail_store(command, error);
	if (!known)
		return cmd_fail(&manual, EXIT_FAILED, "there is no principal %s", command->principal);
	wait_until_everywhere(command);
	if ((error = cmd_connect_until(command->pg, deadline_in_ms(CALL_MS))))
		return fail_store(command, error);
	return run_show(command);
}

/* An option that a verb has no use for would be passed over in silence: a cap that nobody has, a scope that stays. */
static int refuse_strays(const struct key_command *command, const char *verb)
{
	static const struct principal_change nothing = PRINCIPAL_UNCHANGED;
	const struct {
		const char *what, *verbs;
		bool given;
	} rows[] = {
		{"--principal", "create list rotate revoke set show", *command->principal},
		{"--channel", "create", command->channel != channel_default},
		{"--scopes", "create", command->scopes != scopes_default},
		{"--origins", "create", *command->origins},
		{"--prefix", "revoke", *command->prefix},
		{"--grace", "rotate", command->grace_s >= 0},
		{"--json", "list show", command->json},
		{"settings", "set", *command->may_use_safety_stock || memcmp(&command->change, &nothing, sizeof nothing) != 0},
	};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].given && !strstr(rows[i].verbs, verb))
			return cmd_fail(&manual, EXIT_USAGE, "%s takes no %s; with %s goes: %s", verb, rows[i].what, rows[i].what,
			                rows[i].verbs);
	return CMD_GO_ON;
}

int cmd_key(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(struct key_command *command);
	} verbs[] = {{"create", run_create}, {"list", run_list}, {"rotate", run_rotate},
	             {"revoke", run_revoke}, {"set", run_set},   {"show", run_show}};
	struct key_command command = {.change = PRINCIPAL_UNCHANGED};
	const struct config_option options[] = {
		{"principal", CONFIG_STRING, "", 1, 100, "",
	     "the client's name; rotate, set and show also take it as a word; revoke: whose key, where two are listed alike",
	     &command.principal},
		{"channel", CONFIG_STRING, channel_default, 1, 20, "", "create: the channel it sells on", &command.channel},
		{"scopes", CONFIG_STRING, scopes_default, 1, 60, "", "create: what the key may do", &command.scopes},
		{"origins", CONFIG_STRING, "", 1, KEYRING_ORIGINS_BYTES_MAX, "",
	     "create: makes a publishable key, for pages of these origins, with blanks between", &command.origins},
		{"prefix", CONFIG_STRING, "", 1, KEY_SECRET_BYTES, "", "revoke: the key, if it is not given as a word",
	     &command.prefix},
		{"grace", CONFIG_INT, "-1", -1, GRACE_S_MAX, "s", "rotate: revoke the old keys after this time; -1: leave them",
	     &command.grace_s},
		{"buffer", CONFIG_INT, "-1", -1, LU_COUNT_MAX, "",
	     "set: units of every SKU it neither sees nor sells; -1: as it is", &command.change.buffer},
		{"may_use_safety_stock", CONFIG_STRING, "", 1, 100, "",
	     "set: yes or no: what it sees and sells includes the safety stock", &command.may_use_safety_stock},
		{"holds_max", CONFIG_INT, "-1", -1, LU_COUNT_MAX, "", "set: live holds at a time; 0: no cap, -1: as it is",
	     &command.change.holds_max},
		{"held_units_max", CONFIG_INT, "-1", -1, LU_COUNT_MAX, "",
	     "set: units of one SKU held at a time; 0: no cap, -1: as it is", &command.change.held_units_max},
		{"caller_holds_max", CONFIG_INT, "-1", -1, LU_COUNT_MAX, "",
	     "set: live holds of one of its callers; 0: no cap, -1: as it is", &command.change.caller_holds_max},
		{"caller_held_units_max", CONFIG_INT, "-1", -1, LU_COUNT_MAX, "",
	     "set: units of one SKU held by one of its callers; 0: no cap, -1: as it is",
	     &command.change.caller_held_units_max},
		{"json", CONFIG_BOOL, "0", 0, 1, "", "list, show: as JSON", &command.json},
		{0},
	};
	int positionals, code = cmd_begin(&manual, &command.config, options, argc, argv, &positionals);
	if (code != CMD_GO_ON)
		return code;
	size_t verb = 0;
	while (verb < sizeof verbs / sizeof verbs[0] && (!positionals || strcmp(argv[1], verbs[verb].name) != 0))
		verb++;
	if (verb == sizeof verbs / sizeof verbs[0])
		return cmd_fail(&manual, EXIT_USAGE, "which of create, list, rotate, revoke, set, show?");
	bool names = verbs[verb].run == run_rotate || verbs[verb].run == run_set || verbs[verb].run == run_show;
	const char **word = verbs[verb].run == run_revoke ? &command.prefix : names ? &command.principal : NULL;
	/* It may be a key: it is not repeated. */
	if (positionals > 2 || (positionals == 2 && (!word || **word)))
		return cmd_fail(&manual, EXIT_USAGE, "there is one word too many; usage: lastunit %s", manual.usage);
	if (positionals == 2)
		*word = argv[2];
	if ((code = refuse_strays(&command, verbs[verb].name)) != CMD_GO_ON)
		return code;
	if ((code = cmd_connect_migrated(&manual, command.config.database_url, &command.pg)))
		return code;
	arena_init(&command.arena, 16 * 1024);
	code = verbs[verb].run(&command);
	arena_done(&command.arena);
	pg_free(command.pg);
	return code;
}
