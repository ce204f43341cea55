// What this program uses of ADBC 1.1 (https://arrow.apache.org/adbc), in which functions have fixed places, and of Arrow's C data interface.
#pragma once

#include <stdint.h>

struct ArrowSchema {
  const char *format, *name, *metadata;
  int64_t flags, n_children;
  struct ArrowSchema **children, *dictionary;
  void (*release)(struct ArrowSchema *);
  void *private_data;
};

struct ArrowArray {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct ArrowArray **children, *dictionary;
  void (*release)(struct ArrowArray *);
  void *private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *);
  int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *);
  const char *(*get_last_error)(struct ArrowArrayStream *);
  void (*release)(struct ArrowArrayStream *);
  void *private_data;
};

struct AdbcError {
  char *message;
  int32_t vendor_code;
  char sqlstate[5];
  void (*release)(struct AdbcError *);
  void *private_data, *private_driver;
};

// A database, a connection or a statement.
struct Handle {
  void *private_data, *private_driver;
};

typedef uint8_t (*New)(struct Handle *, struct AdbcError *);
typedef uint8_t (*NewOf)(struct Handle *, struct Handle *, struct AdbcError *);
typedef uint8_t (*SetText)(struct Handle *, const char *, const char *, struct AdbcError *);
typedef uint8_t (*SetQuery)(struct Handle *, const char *, struct AdbcError *);
typedef uint8_t (*Bind)(struct Handle *, struct ArrowArray *, struct ArrowSchema *, struct AdbcError *);
typedef uint8_t (*Execute)(struct Handle *, struct ArrowArrayStream *, int64_t *, struct AdbcError *);
typedef const struct AdbcError *(*FromStream)(struct ArrowArrayStream *, uint8_t *);

struct AdbcDriver {
  void *private_data, *private_manager;
  uint8_t (*release)(struct AdbcDriver *, struct AdbcError *);
  New database_init, database_new;
  SetText database_set_option;
  New database_release;
  void *commit, *get_info, *get_objects, *get_table_schema, *get_table_types;
  NewOf connection_init;
  New connection_new;
  SetText connection_set_option;
  void *read_partition;
  New connection_release;
  void *rollback;
  Bind statement_bind;
  void *bind_stream;
  Execute statement_execute_query;
  void *execute_partitions, *get_parameter_schema;
  NewOf statement_new;
  New statement_prepare, statement_release;
  SetText statement_set_option;
  SetQuery statement_set_sql_query;
  void *set_substrait_plan, *error_get_detail_count, *error_get_detail;
  FromStream error_from_array_stream;
  void *database_options[7], *connection_cancel, *connection_options[9];
  New statement_cancel;
  void *statement_options[8];
};

// Loads a driver. Returns what is wrong, or NULL.
const char *load(const char *path, struct AdbcDriver *driver, struct AdbcError *error);

// Calls of functions of the driver, because Go calls none by a pointer.
uint8_t call_new(New function, struct Handle *handle, struct AdbcError *error);
uint8_t call_of(NewOf function, struct Handle *handle, struct Handle *of, struct AdbcError *error);
uint8_t call_set(SetText function, struct Handle *handle, const char *key, const char *value, struct AdbcError *error);
uint8_t call_query(SetQuery function, struct Handle *handle, const char *text, struct AdbcError *error);
uint8_t call_bind(Bind function, struct Handle *handle, struct ArrowArray *array, struct ArrowSchema *schema, struct AdbcError *error);
uint8_t call_execute(Execute function, struct Handle *handle, struct ArrowArrayStream *stream, struct AdbcError *error);
int next_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema);
int next_array(struct ArrowArrayStream *stream, struct ArrowArray *array);
const char *last_error(struct ArrowArrayStream *stream);
void end_stream(struct ArrowArrayStream *stream);
void state_of_stream(struct AdbcDriver *driver, struct ArrowArrayStream *stream, char *state);
void end_error(struct AdbcError *error);
