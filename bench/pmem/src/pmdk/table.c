/* A table of keys and byte strings in a pool of libpmemobj, with one of PMDK's example trees as its index. Each change is a
 * transaction. Calls return 0, or -1 on failure, of which pmemobj_errormsg() has the reason. */

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "btree_map.h"
#include "ctree_map.h"

#define LAYOUT "pmem-peers"
#define VALUE_TYPE 1

struct root {
	TOID(struct ctree_map) ctree;
	TOID(struct btree_map) btree;
};

struct value {
	uint64_t len;
	unsigned char bytes[];
};

struct table {
	PMEMobjpool *pool;
	struct root *root;
	int is_btree;
};

typedef int (*visitor)(uint64_t key, const unsigned char *bytes, size_t len, void *context);

void table_close(struct table *table)
{
	pmemobj_close(table->pool);
	free(table);
}

/* Opens the pool of a file, or creates it with `size` bytes. NULL on failure. */
struct table *table_open(const char *path, size_t size, int is_btree)
{
	PMEMobjpool *pool = pmemobj_open(path, LAYOUT);
	int is_new = pool == NULL;
	if (is_new && (pool = pmemobj_create(path, LAYOUT, size, 0600)) == NULL)
		return NULL;
	struct table *table = malloc(sizeof(*table));
	if (table == NULL) {
		pmemobj_close(pool);
		return NULL;
	}
	*table = (struct table){pool, pmemobj_direct(pmemobj_root(pool, sizeof(struct root))), is_btree};
	int failed = 0;
	if (is_new && is_btree)
		failed = btree_map_create(pool, &table->root->btree, NULL);
	else if (is_new)
		failed = ctree_map_create(pool, &table->root->ctree, NULL);
	if (failed) {
		table_close(table);
		return NULL;
	}
	return table;
}

static PMEMoid find(struct table *table, uint64_t key)
{
	return table->is_btree ? btree_map_get(table->pool, table->root->btree, key)
			       : ctree_map_get(table->pool, table->root->ctree, key);
}

/* Writes a value: in its place if the key is there and the length is the same, which is what both trees can do. */
int table_put(struct table *table, uint64_t key, const unsigned char *bytes, size_t len)
{
	int failed = 0;
	PMEMoid found = find(table, key);
	struct value *old = OID_IS_NULL(found) ? NULL : pmemobj_direct(found);
	if (old != NULL && old->len != len)
		return -1;
	TX_BEGIN(table->pool) {
		if (old != NULL) {
			pmemobj_tx_add_range_direct(old->bytes, len);
			memcpy(old->bytes, bytes, len);
		} else {
			PMEMoid oid = pmemobj_tx_alloc(sizeof(struct value) + len, VALUE_TYPE);
			struct value *value = pmemobj_direct(oid);
			value->len = len;
			memcpy(value->bytes, bytes, len);
			if (table->is_btree)
				btree_map_insert(table->pool, table->root->btree, key, oid);
			else
				ctree_map_insert(table->pool, table->root->ctree, key, oid);
		}
	} TX_ONABORT {
		failed = -1;
	} TX_END
	return failed;
}

int table_remove(struct table *table, uint64_t key)
{
	return table->is_btree ? btree_map_remove_free(table->pool, table->root->btree, key)
			       : ctree_map_remove_free(table->pool, table->root->ctree, key);
}

/* The bytes of a value and their number. NULL if the key is not there. */
const unsigned char *table_get(struct table *table, uint64_t key, size_t *len)
{
	PMEMoid found = find(table, key);
	if (OID_IS_NULL(found))
		return NULL;
	struct value *value = pmemobj_direct(found);
	*len = value->len;
	return value->bytes;
}

struct visit {
	visitor visitor;
	void *context;
};

static int visit_value(uint64_t key, PMEMoid oid, void *context)
{
	struct visit *visit = context;
	struct value *value = pmemobj_direct(oid);
	return visit->visitor(key, value->bytes, value->len, visit->context);
}

/* Visits all values in the order of the keys until the visitor returns another number than 0. */
void table_scan(struct table *table, visitor visitor, void *context)
{
	struct visit visit = {visitor, context};
	if (table->is_btree)
		btree_map_foreach(table->pool, table->root->btree, visit_value, &visit);
	else
		ctree_map_foreach(table->pool, table->root->ctree, visit_value, &visit);
}
