/* The ADBC driver's library as a program in C uses it: no driver manager, no Python. */

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arrow-adbc/adbc.h"

static struct AdbcError error;

static void check(AdbcStatusCode status, const char *what) {
    if (status != ADBC_STATUS_OK) {
        fprintf(stderr, "%s: status %d: %s\n", what, status, error.message ? error.message : "");
        exit(1);
    }
}

static int64_t update(struct AdbcDriver *driver, struct AdbcConnection *connection, const char *sql) {
    struct AdbcStatement statement = {0};
    int64_t rows = -7;
    check(driver->StatementNew(connection, &statement, &error), "StatementNew");
    check(driver->StatementSetSqlQuery(&statement, sql, &error), "StatementSetSqlQuery");
    check(driver->StatementExecuteQuery(&statement, NULL, &rows, &error), sql);
    check(driver->StatementRelease(&statement, &error), "StatementRelease");
    return rows;
}

static void query(struct AdbcDriver *driver, struct AdbcConnection *connection) {
    struct AdbcStatement statement = {0};
    struct ArrowArrayStream stream = {0};
    struct ArrowSchema schema = {0};
    int64_t rows = 0, sum = 0, columns;
    check(driver->StatementNew(connection, &statement, &error), "StatementNew");
    check(driver->StatementSetSqlQuery(&statement, "SELECT a, b FROM t WHERE a > 1", &error), "StatementSetSqlQuery");
    check(driver->StatementExecuteQuery(&statement, &stream, NULL, &error), "StatementExecuteQuery");
    if (stream.get_schema(&stream, &schema) != 0) exit(2);
    columns = schema.n_children;
    schema.release(&schema);
    for (;;) {
        struct ArrowArray array = {0};
        if (stream.get_next(&stream, &array) != 0) exit(3);
        if (array.release == NULL) break;
        const int64_t *values = (const int64_t *)array.children[0]->buffers[1] + array.children[0]->offset;
        for (int64_t row = 0; row < array.length; row++) sum += values[row];
        rows += array.length;
        array.release(&array);
    }
    printf("rows %lld of %lld columns, sum %lld\n", (long long)rows, (long long)columns, (long long)sum);
    stream.release(&stream);
    /* An error, with its state; the statement is used again. */
    check(driver->StatementSetSqlQuery(&statement, "SELECT * FROM u", &error), "StatementSetSqlQuery");
    AdbcStatusCode status = driver->StatementExecuteQuery(&statement, &stream, NULL, &error);
    printf("status %d state %.5s: %s\n", status, error.sqlstate, error.message);
    error.release(&error);
    memset(&error, 0, sizeof error);
    check(driver->StatementRelease(&statement, &error), "StatementRelease");
}

int main(int count, char **arguments) {
    struct AdbcDriver driver = {0};
    struct AdbcDatabase database = {0};
    struct AdbcConnection connection = {0};
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    AdbcDriverInitFunc init = library ? (AdbcDriverInitFunc)dlsym(library, "AdbcDriverInit") : NULL;
    if (init == NULL) {
        fprintf(stderr, "cannot load the driver: %s\n", dlerror());
        return 1;
    }
    check(init(ADBC_VERSION_1_1_0, &driver, &error), "AdbcDriverInit");
    check(driver.DatabaseNew(&database, &error), "DatabaseNew");
    check(driver.DatabaseSetOption(&database, "uri", ":memory:", &error), "DatabaseSetOption");
    check(driver.DatabaseSetOptionInt(&database, "freestone.threads", 2, &error), "DatabaseSetOptionInt");
    check(driver.DatabaseInit(&database, &error), "DatabaseInit");
    check(driver.ConnectionNew(&connection, &error), "ConnectionNew");
    check(driver.ConnectionInit(&connection, &database, &error), "ConnectionInit");
    update(&driver, &connection, "CREATE TABLE t (a BIGINT, b VARCHAR)");
    long long inserted = update(&driver, &connection, "INSERT INTO t VALUES (1, 'x'), (2, NULL), (3, 'z')");
    printf("inserted %lld\n", inserted);
    query(&driver, &connection);
    check(driver.ConnectionRelease(&connection, &error), "ConnectionRelease");
    printf("released twice: status %d\n", driver.ConnectionRelease(&connection, &error));
    if (error.release) error.release(&error);
    memset(&error, 0, sizeof error);
    check(driver.DatabaseRelease(&database, &error), "DatabaseRelease");
    check(driver.release(&driver, &error), "release");
    return 0;
}
