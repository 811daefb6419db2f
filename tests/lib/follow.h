/* json_follow(): what a reference within a JSON document leads to. cmocka asserts inside. */
#ifndef LIB_FOLLOW_H
#define LIB_FOLLOW_H

#include <jansson.h>
#include <stdio.h>
#include <string.h>

/* "{"$ref": "#/components/…"}" of this document: the value there. Anything else is itself. */
static inline const json_t *json_follow(const json_t *document, const json_t *value)
{
	const char *ref = json_string_value(json_object_get(value, "$ref"));
	char words[100];
	if (!ref)
		return value;
	value = document;
	snprintf(words, sizeof words, "%s", ref + strlen("#/"));
	for (char *rest, *word = strtok_r(words, "/", &rest); word; word = strtok_r(NULL, "/", &rest))
		value = json_object_get(value, word);
	if (!value)
		fail_msg("%s leads nowhere", ref);
	return value;
}

#endif
