/* Names: a direct-mapped table under one mutex, held for as long as a copy of one product takes. Failure modes: none;
 * what is not here is asked for. */
#include "channels/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "inventory/inventory.h"

struct name {
	int64_t id; /* 0: free */
	int64_t until_ns;
	char namespace[INVENTORY_NAMESPACE_ROOM];
	uint16_t code_bytes, titles_bytes;
	char bytes[NAMES_TEXT_BYTES_MAX]; /* the code, then the titles */
};

struct names {
	pthread_mutex_t mutex;
	struct name names[NAMES_PLACES];
};

_Static_assert(sizeof(struct names) <= 1100 * 1024, "as names.h says");

struct names *names_new(void)
{
	struct names *names = calloc(1, sizeof *names);
	CHECK(names);
	pthread_mutex_init(&names->mutex, NULL);
	return names;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	pthread_mutex_destroy(&names->mutex);
	free(names);
}

static struct name *place_of(struct names *names, int64_t id)
{
	return &names->names[(uint64_t)id % NAMES_PLACES];
}

static void put(struct names *names, const char *namespace, int64_t until_ns, const struct product *product)
{
	struct name *name = place_of(names, product->id);
	/* A slow answer does not replace that of a later question. */
	if (name->id == product->id && name->until_ns > until_ns)
		return;
	name->id = 0;
	if (product->code.size + product->titles_json.size > NAMES_TEXT_BYTES_MAX)
		return;
	name->id = product->id;
	name->until_ns = until_ns;
	strcpy(name->namespace, namespace);
	name->code_bytes = (uint16_t)product->code.size;
	name->titles_bytes = (uint16_t)product->titles_json.size;
	memcpy(name->bytes, product->code.data, product->code.size);
	memcpy(name->bytes + product->code.size, product->titles_json.data, product->titles_json.size);
}

void names_put(struct names *names, const char *namespace, int64_t asked_ns, const struct product *products,
               size_t count)
{
	CHECK(strlen(namespace) < INVENTORY_NAMESPACE_ROOM);
	pthread_mutex_lock(&names->mutex);
	for (size_t i = 0; i < count; i++)
		put(names, namespace, asked_ns + NAMES_KEPT_MS * NS_PER_MS, &products[i]);
	pthread_mutex_unlock(&names->mutex);
}

bool names_get(struct names *names, const char *namespace, int64_t now_ns, int64_t id, struct arena *arena,
               struct product *ret_product)
{
	pthread_mutex_lock(&names->mutex);
	const struct name *name = place_of(names, id);
	bool known = name->id == id && now_ns < name->until_ns && strcmp(name->namespace, namespace) == 0;
	if (known)
		*ret_product = (struct product){
			.id = id,
			.code = arena_text(arena, (struct text){name->bytes, name->code_bytes}),
			.titles_json = arena_text(arena, (struct text){name->bytes + name->code_bytes, name->titles_bytes}),
		};
	pthread_mutex_unlock(&names->mutex);
	return known;
}
