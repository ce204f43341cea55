#include "adbc.h"

#include <dlfcn.h>
#include <string.h>

#define VERSION_1_1 1001000
#define FROM_PRIVATE_DATA INT32_MIN

const char *load(const char *path, struct AdbcDriver *driver, struct AdbcError *error) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return dlerror();
  uint8_t (*init)(int, void *, struct AdbcError *) = (uint8_t (*)(int, void *, struct AdbcError *))dlsym(library, "AdbcDriverInit");
  if (!init) return dlerror();
  return init(VERSION_1_1, driver, error) ? error->message : NULL;
}

uint8_t call_new(New function, struct Handle *handle, struct AdbcError *error) { return function(handle, error); }
uint8_t call_of(NewOf function, struct Handle *handle, struct Handle *of, struct AdbcError *error) { return function(handle, of, error); }
uint8_t call_set(SetText function, struct Handle *handle, const char *key, const char *value, struct AdbcError *error) {
  return function(handle, key, value, error);
}
uint8_t call_query(SetQuery function, struct Handle *handle, const char *text, struct AdbcError *error) { return function(handle, text, error); }
uint8_t call_bind(Bind function, struct Handle *handle, struct ArrowArray *array, struct ArrowSchema *schema, struct AdbcError *error) {
  return function(handle, array, schema, error);
}
uint8_t call_execute(Execute function, struct Handle *handle, struct ArrowArrayStream *stream, struct AdbcError *error) {
  int64_t rows = 0;
  return function(handle, stream, &rows, error);
}

int next_schema(struct ArrowArrayStream *stream, struct ArrowSchema *schema) { return stream->get_schema(stream, schema); }
int next_array(struct ArrowArrayStream *stream, struct ArrowArray *array) { return stream->get_next(stream, array); }
const char *last_error(struct ArrowArrayStream *stream) { return stream->get_last_error(stream); }
void end_stream(struct ArrowArrayStream *stream) {
  if (stream->release) stream->release(stream);
}

void state_of_stream(struct AdbcDriver *driver, struct ArrowArrayStream *stream, char *state) {
  uint8_t status = 0;
  const struct AdbcError *error = driver->error_from_array_stream ? driver->error_from_array_stream(stream, &status) : NULL;
  if (error) memcpy(state, error->sqlstate, 5);
}

void end_error(struct AdbcError *error) {
  if (error->release) error->release(error);
  memset(error, 0, sizeof *error);
  // The driver fills what was added in ADBC 1.1 if the vendor code says that it is there.
  error->vendor_code = FROM_PRIVATE_DATA;
}
