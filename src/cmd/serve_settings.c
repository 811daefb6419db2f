/* Settings of `serve` that are right one by one and wrong together (serve_settings.h).
 *
 * Happy path: two short tables and nothing to say. Failure modes: a half that leaves a channel shut though somebody
 * asked for it, or a secret open, ends the start; what a later `lastunit key create` mends is a line in the log. A secret
 * stands in neither.
 */
#include "cmd/serve_settings.h"

#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "store/key.h"

static bool begins_with(const char *text, const char *start)
{
	return strncasecmp(text, start, strlen(start)) == 0;
}

/* What Twilio signs and a browser's Origin is compared with is this address with our own paths behind it. */
static bool check_public_url(const char *url, char ret_why[512])
{
	static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	int64_t port = 1;
	if (!begins_with(url, "http://") && !begins_with(url, "https://"))
		return cmd_refuse(ret_why, "--public-url must begin with https:// (or http://), as clients type it");
	const char *host = strstr(url, "://") + 3, *end = host + strspn(host, names);
	if (*host == '[') {
		end = host + 1 + strspn(host + 1, "0123456789abcdefABCDEF:.");
		end += *end == ']';
	}
	if (end == host || strchr(host, '@'))
		return cmd_refuse(ret_why, "--public-url must name a host and no user: https://host[:port]");
	bool closed = *host != '[' || (end[-1] == ']' && end - host > 2);
	if (*end == ':') {
		size_t digits = strspn(++end, "0123456789");
		if (!text_to_int64((struct text){end, digits}, &port))
			port = 0;
		end += digits;
	}
	end += *end == '/'; /* as browsers show it */
	if (*end || !closed || port < 1 || port > UINT16_MAX)
		return cmd_refuse(ret_why,
		                  "--public-url must end with its host or port: https://host[:port], without a path behind it");
	return true;
}

bool serve_settings_check(const struct config *config, char ret_why[512])
{
	if (*config->shop_key && !key_looks_publishable(text_of(config->shop_key)))
		return cmd_refuse(ret_why, "--shop-key must be a publishable key (lu_pub_...): it is shown to every visitor");
	if (*config->public_url && !check_public_url(config->public_url, ret_why))
		return false;
	if (*config->telegram_key && !*config->telegram_secret)
		return cmd_refuse(ret_why,
		                  "--telegram-key needs --telegram-secret, by which Telegram's calls are told from others");
	if (*config->alexa_key && !*config->alexa_application)
		return cmd_refuse(ret_why,
		                  "--alexa-key needs --alexa-application, by which the skill's calls are told from others");
	if (*config->twilio_key && !*config->twilio_token)
		return cmd_refuse(ret_why, "--twilio-key needs --twilio-token, which signs Twilio's calls");
	/* `dev` calls its phone itself, by the address it listens on: whoever has its page's keys is it. */
	if (*config->twilio_key && !*config->public_url && !*config->page_keys)
		return cmd_refuse(ret_why, "--twilio-key needs --public-url, the address that Twilio's signature is made of");
	return true;
}

/* A channel's key, as which it acts, and whose. */
static void warn_of_key(struct keyring *keyring, const char *flag, const char *key, enum channel channel)
{
	struct keyring_entry entry;
	if (!*key)
		return;
	if (!keyring_find_key(keyring, text_of(key), &entry))
		log_event(LOG_WARN, "key_unknown flag=%s what=\"no such key lives: until it is made its channel is shut\"",
		          flag);
	else if (channel && entry.principal.channel != channel)
		log_event(LOG_WARN, "key_of_another_channel flag=%s channel=%s wanted=%s", flag,
		          channel_name(entry.principal.channel), channel_name(channel));
}

/* Whoever asks without a key is one principal, and its callers are not told apart: only its own caps are between one of
 * them and the last unit. */
static void warn_of_no_cap(struct keyring *keyring, const char *flag, const char *key)
{
	struct keyring_entry entry;
	if (!*key || !keyring_find_key(keyring, text_of(key), &entry))
		return;
	const struct principal_settings *settings = &entry.principal.settings;
	if (!settings->holds_max && !settings->held_units_max)
		log_event(
			LOG_WARN,
			"hoarding_possible flag=%s what=\"one agent without a key can hold all units: give its principal caps, "
			"lastunit key set NAME --holds-max N --held-units-max N\"",
			flag);
}

static void warn_of_secret(const char *key_flag, const char *key, const char *secret_flag, const char *secret)
{
	if (*secret && !*key)
		log_event(LOG_WARN, "channel_shut flag=%s what=\"nothing is done with it without %s\"", secret_flag, key_flag);
}

void serve_settings_warn(const struct config *config, struct keyring *keyring)
{
	warn_of_key(keyring, "--telegram-key", config->telegram_key, CHANNEL_TELEGRAM);
	warn_of_key(keyring, "--alexa-key", config->alexa_key, CHANNEL_VOICE);
	warn_of_key(keyring, "--twilio-key", config->twilio_key, CHANNEL_VOICE);
	warn_of_key(keyring, "--public-mcp", config->public_mcp, CHANNEL_AGENT);
	warn_of_no_cap(keyring, "--public-mcp", config->public_mcp);
	warn_of_key(keyring, "--shop-key", config->shop_key, 0); /* a publishable key of any channel's */
	warn_of_secret("--telegram-key", config->telegram_key, "--telegram-secret", config->telegram_secret);
	warn_of_secret("--alexa-key", config->alexa_key, "--alexa-application", config->alexa_application);
	warn_of_secret("--twilio-key", config->twilio_key, "--twilio-token", config->twilio_token);
}
