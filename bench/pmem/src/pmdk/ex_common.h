/* What PMDK's example trees take from the examples' common header, which Debian's package leaves out. */
#ifndef EX_COMMON_H
#define EX_COMMON_H

#include <stdint.h>

/* The number of the highest bit that is set; the value is not 0. */
static inline int find_last_set_64(uint64_t value)
{
	return 63 - __builtin_clzll(value);
}

#endif
