/* Configuration: config.def and the flags of a subcommand become one list of options; everything else walks it.
 *
 * Happy path: defaults into every field, then the environment for the options the subcommand takes, then the flags.
 * Failure modes: the first wrong value ends config_load() with one line that names where it came from, what is wrong
 * and what would be right. Text is never repeated in that line: it may be a URL with a password. An empty environment
 * variable counts as not set, for that is how compose files spell it.
 */
#include "base/config.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define OPTIONS_MAX 96
#define NAME_BYTES_MAX 64
#define HELP_COLUMN 28

#define DEFAULT_STRING(value) value
#define DEFAULT_INT(value) #value
#define DEFAULT_BOOL(value) #value

static const struct {
	struct config_option option;
	size_t offset;
} rows[] = {
#define X(type_, name_, default_, min_, max_, unit_, help_)                               \
	{{#name_, CONFIG_##type_, DEFAULT_##type_(default_), min_, max_, unit_, help_, NULL}, \
	 offsetof(struct config, name_)},
#include "base/config.def"
#undef X
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

/* What one subcommand takes. */
struct options {
	struct config_option all[OPTIONS_MAX];
	unsigned count;
	unsigned shared_count; /* the first ones: those with an environment variable */
};

/* "http-loops" for http_loops; "LASTUNIT_HTTP_LOOPS" for the environment. */
static void spell(const char *name, const char *prefix, bool upper, char dash, char out[NAME_BYTES_MAX])
{
	CHECK(strlen(prefix) + strlen(name) < NAME_BYTES_MAX);
	char *to = stpcpy(out, prefix);
	for (; *name; name++)
		*to++ = *name == '_' || *name == '-' ? dash : upper ? (char)toupper((unsigned char)*name) : *name;
	*to = 0;
}

static void spell_flag(const char *name, char out[NAME_BYTES_MAX])
{
	spell(name, "--", false, '-', out);
}

static void spell_variable(const char *name, char out[NAME_BYTES_MAX])
{
	spell(name, "LASTUNIT_", true, '_', out);
}

static bool is_listed(const char *list, const char *name)
{
	if (strcmp(list, "*") == 0)
		return true;
	size_t size = strlen(name);
	for (const char *at = list; (at = strstr(at, name)); at += size)
		if ((at == list || at[-1] == ' ') && (at[size] == ' ' || !at[size]))
			return true;
	return false;
}

/* The option of config.def that this one only explains; NULL: it is one of its own. */
static struct config_option *explained(struct options *options, const struct config_option *own)
{
	for (unsigned i = 0; i < options->shared_count; i++)
		if (!own->target && strcmp(options->all[i].name, own->name) == 0)
			return &options->all[i];
	return NULL;
}

static void collect(struct config *config, const char *shared, const struct config_option *own, struct options *out)
{
	out->count = 0;
	for (unsigned i = 0; i < ROW_COUNT; i++)
		if (is_listed(shared, rows[i].option.name)) {
			CHECK(out->count < OPTIONS_MAX);
			out->all[out->count] = rows[i].option;
			out->all[out->count++].target = config ? (char *)config + rows[i].offset : NULL;
		}
	out->shared_count = out->count;
	for (; own && own->name; own++) {
		struct config_option *shared_option = explained(out, own);
		if (shared_option) {
			shared_option->help = own->help;
			continue;
		}
		CHECK(out->count < OPTIONS_MAX);
		out->all[out->count] = *own;
		if (!own->unit)
			out->all[out->count].unit = "";
		out->count++;
	}
}

static bool parse_bool(const char *value, bool *ret)
{
	static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
	for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++)
		if (strcmp(value, words[i]) == 0) {
			*ret = i % 2 != 0;
			return true;
		}
	return false;
}

static bool apply(const struct config_option *option, const char *source, const char *value, FILE *err)
{
	const char *blank = *option->unit ? " " : "";
	switch (option->type) {
	case CONFIG_STRING: {
		int64_t size = (int64_t)strlen(value);
		if (size < option->min || size > option->max) {
			fprintf(err, "%s: %" PRId64 " %s long; %" PRId64 " to %" PRId64 " are allowed\n", source, size,
			        text_plural(size, "byte", "bytes"), option->min, option->max);
			return false;
		}
		*(const char **)option->target = value;
		return true;
	}
	case CONFIG_INT: {
		int64_t number;
		if (!text_to_int64(text_of(value), &number)) {
			fprintf(err, "%s: \"%.40s\" is not an integer; %" PRId64 " to %" PRId64 "%s%s is expected\n", source, value,
			        option->min, option->max, blank, option->unit);
			return false;
		}
		if (number < option->min || number > option->max) {
			fprintf(err, "%s: %" PRId64 " is out of bounds; they are %" PRId64 " to %" PRId64 "%s%s (%s)\n", source,
			        number, option->min, option->max, blank, option->unit, option->help);
			return false;
		}
		*(int64_t *)option->target = number;
		return true;
	}
	case CONFIG_BOOL:
		if (parse_bool(value, option->target))
			return true;
		fprintf(err, "%s: \"%.40s\" is neither true nor false\n", source, value);
		return false;
	}
	check_failed(__FILE__, __LINE__, "a known option type");
}

/* Defaults are not judged: one out of bounds ("" where a byte is demanded) marks an option that must be given, which
 * is for the subcommand to say. Without a default the target keeps what is there. */
static void apply_default(const struct config_option *option, void *target)
{
	const char *value = option->default_value;
	if (!value)
		return;
	if (option->type == CONFIG_STRING)
		*(const char **)target = value;
	else if (option->type == CONFIG_INT)
		CHECK(text_to_int64(text_of(value), target));
	else
		CHECK(parse_bool(value, target));
}

static void apply_defaults(struct config *config, const struct options *options)
{
	for (unsigned i = 0; i < ROW_COUNT; i++)
		apply_default(&rows[i].option, (char *)config + rows[i].offset);
	for (unsigned i = options->shared_count; i < options->count; i++)
		apply_default(&options->all[i], options->all[i].target);
}

static bool apply_environment(const struct options *options, FILE *err)
{
	for (unsigned i = 0; i < options->shared_count; i++) {
		char variable[NAME_BYTES_MAX];
		spell_variable(options->all[i].name, variable);
		const char *value = getenv(variable);
		if (value && *value && !apply(&options->all[i], variable, value, err))
			return false;
	}
	return true;
}

static bool refuse_unknown(const struct options *options, const char *argument, FILE *err)
{
	char given[NAME_BYTES_MAX], flag[NAME_BYTES_MAX];
	size_t size = strcspn(argument, "=");
	if (size >= sizeof given)
		size = sizeof given - 1;
	memcpy(given, argument, size);
	given[size] = 0;
	const char *nearest = NULL;
	size_t best = size / 3 + 1; /* the dashes count: two edits are near for --port, three for --writers */
	for (unsigned i = 0; i < options->count; i++) {
		spell_flag(options->all[i].name, flag);
		size_t edits = size > 4 && strncmp(flag, given, size) == 0 ? 1 : text_distance(given, flag);
		if (edits < best) {
			nearest = options->all[i].name;
			best = edits;
		}
	}
	fprintf(err, "%s: no such option", given);
	if (nearest) {
		spell_flag(nearest, flag);
		fprintf(err, "; did you mean %s?", flag);
	} else {
		fprintf(err, "; --help lists them");
	}
	fputc('\n', err);
	return false;
}

/* Is `argument` this flag? Then *ret_value is what follows "=", NULL if nothing does; *ret_negated for --no-flag. */
static bool is_flag(const struct config_option *option, const char *argument, const char **ret_value, bool *ret_negated)
{
	char flag[NAME_BYTES_MAX];
	spell_flag(option->name, flag);
	size_t size = strlen(flag);
	*ret_negated = false;
	*ret_value = NULL;
	if (option->type == CONFIG_BOOL && strncmp(argument, "--no-", 5) == 0 && strcmp(argument + 5, flag + 2) == 0) {
		*ret_negated = true;
		return true;
	}
	if (strncmp(argument, flag, size) != 0 || (argument[size] && argument[size] != '='))
		return false;
	*ret_value = argument[size] ? argument + size + 1 : NULL;
	return true;
}

/* Applies argv[*at] and steps over the value it took. */
static bool apply_flag(const struct options *options, int argc, char **argv, int *at, FILE *err)
{
	const char *argument = argv[*at], *value;
	for (unsigned i = 0; i < options->count; i++) {
		const struct config_option *option = &options->all[i];
		bool negated;
		if (!is_flag(option, argument, &value, &negated))
			continue;
		char flag[NAME_BYTES_MAX];
		spell_flag(option->name, flag);
		if (option->type == CONFIG_BOOL && !value)
			value = negated ? "0" : "1";
		if (!value && *at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
			value = argv[++*at];
		if (value)
			return apply(option, flag, value, err);
		fprintf(err, "%s: a value is missing: %s VALUE or %s=VALUE\n", flag, flag, flag);
		return false;
	}
	return refuse_unknown(options, argument, err);
}

static bool asks_for_help(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
			return true;
	return false;
}

bool config_load(struct config *config, const char *shared, const struct config_option *options, int argc, char **argv,
                 int *ret_positionals, bool *ret_help, FILE *err)
{
	struct options known;
	collect(config, shared, options, &known);
	apply_defaults(config, &known);
	*ret_positionals = 0;
	*ret_help = asks_for_help(argc, argv);
	if (*ret_help)
		return true;
	if (!apply_environment(&known, err))
		return false;
	int positionals = 0;
	bool only_positionals = false;
	for (int i = 1; i < argc; i++) {
		if (only_positionals || strncmp(argv[i], "--", 2) != 0)
			argv[1 + positionals++] = argv[i]; /* never ahead of i: flags before it have made room */
		else if (!argv[i][2])
			only_positionals = true;
		else if (!apply_flag(&known, argc, argv, &i, err))
			return false;
	}
	*ret_positionals = positionals;
	return true;
}

static void print_wrapped(FILE *out, const char *text)
{
	while (*text) {
		size_t size = strlen(text), room = 120 - HELP_COLUMN;
		if (size > room) {
			size = room;
			while (size > 0 && text[size] != ' ')
				size--;
			if (!size)
				size = strcspn(text, " ");
		}
		fprintf(out, "%*s%.*s\n", HELP_COLUMN, "", (int)size, text);
		text += size + strspn(text + size, " ");
	}
}

static void print_option(FILE *out, const struct options *known, unsigned i)
{
	static const char *const kinds[] = {[CONFIG_STRING] = " TEXT", [CONFIG_INT] = " N", [CONFIG_BOOL] = ""};
	const struct config_option *option = &known->all[i];
	char name[NAME_BYTES_MAX];
	const char *blank = *option->unit ? " " : "";
	spell_flag(option->name, name);
	fprintf(out, "  %s%s", name, kinds[option->type]);
	const char *value = option->default_value ? option->default_value : "";
	if (option->type == CONFIG_STRING && *value)
		fprintf(out, "  (default %s)", value);
	else if (option->type == CONFIG_INT)
		fprintf(out, "  (%" PRId64 " to %" PRId64 "%s%s%s%s)", option->min, option->max, blank, option->unit,
		        *value ? ", default " : "", value);
	else if (option->type == CONFIG_BOOL)
		fprintf(out, "  (default %s; --no-%s)", strcmp(value, "1") == 0 ? "on" : "off", name + 2);
	if (i < known->shared_count) {
		spell_variable(option->name, name);
		fprintf(out, "  %s", name);
	}
	fputc('\n', out);
	print_wrapped(out, option->help);
}

void config_print_help(FILE *out, const char *shared, const struct config_option *options)
{
	struct options known;
	collect(NULL, shared, options, &known);
	/* A command's own first: the shared ones are many, and much the same everywhere. */
	for (unsigned n = 0; n < known.count; n++)
		print_option(out, &known, (n + known.shared_count) % known.count);
	fprintf(out, "  --help\n%*sthis list\n", HELP_COLUMN, "");
}
