package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lib/pq"
)

type pqCheck = check[*sql.Conn]

// held is a value of a type of SQL, which goes and comes back.
type held struct {
	name, of string
	sent     any
	// Where the value is read, and what is there then.
	into   func() any
	wanted any
}

// read is what a pointer points to.
func read(pointer any) any {
	switch to := pointer.(type) {
	case *int64:
		return *to
	case *float64:
		return *to
	case *string:
		return *to
	case *bool:
		return *to
	case *[]byte:
		return *to
	case *time.Time:
		return to.UTC()
	case *pq.Int64Array:
		return *to
	case *pq.StringArray:
		return *to
	case *pq.BoolArray:
		return *to
	}
	return pointer
}

func pqValues() []held {
	at := time.Date(2024, 2, 29, 10, 20, 30, 123456000, time.UTC)
	texts := func() any { return new(string) }
	return []held{
		{"smallint", "smallint", int64(-7), func() any { return new(int64) }, int64(-7)},
		{"bigint", "bigint", int64(1) << 62, func() any { return new(int64) }, int64(1) << 62},
		{"double", "double precision", 2.25, func() any { return new(float64) }, 2.25},
		{"numeric", "numeric(10, 2)", "12.3", texts, "12.30"},
		{"text", "text", "ä 日本語 '\"\\", texts, "ä 日本語 '\"\\"},
		{"boolean", "boolean", true, func() any { return new(bool) }, true},
		{"bytea", "bytea", []byte{0, 255, '\\'}, func() any { return new([]byte) }, []byte{0, 255, '\\'}},
		{"date", "date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), func() any { return new(time.Time) }, time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		{"timestamp", "timestamp", at, func() any { return new(time.Time) }, at},
		{"timestamp with zone", "timestamptz", at, func() any { return new(time.Time) }, at},
		{"uuid", "uuid", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", texts, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"json", "json", `{"a": 1}`, texts, `{"a": 1}`},
		{"interval", "interval", "1 day 2 hours", texts, "1 day 02:00:00"},
		{"integers", "integer[]", pq.Array([]int64{1, 2}), func() any { return &pq.Int64Array{} }, pq.Int64Array{1, 2}},
		{"texts", "text[]", pq.Array([]string{"a,b", "\"", ""}), func() any { return &pq.StringArray{} }, pq.StringArray{"a,b", "\"", ""}},
		{"booleans", "boolean[]", pq.Array([]bool{true, false}), func() any { return &pq.BoolArray{} }, pq.BoolArray{true, false}},
	}
}

func pqTypes() []pqCheck {
	checks := []pqCheck{}
	for _, value := range pqValues() {
		checks = append(checks, pqCheck{"types." + value.name, func(ctx context.Context, c *sql.Conn) error {
			found, null := value.into(), sql.NullString{}
			return all(
				c.QueryRowContext(ctx, "SELECT $1::"+value.of, value.sent).Scan(found), same(read(found), value.wanted),
				c.QueryRowContext(ctx, "SELECT $1::"+value.of, nil).Scan(&null), same(null.Valid, false),
			)
		}})
		checks = append(checks, pqCheck{"columns." + value.name, func(ctx context.Context, c *sql.Conn) error {
			if _, err := c.ExecContext(ctx, fmt.Sprintf("CREATE TEMP TABLE kept (n INTEGER, c %s)", value.of)); err != nil {
				return err
			}
			if _, err := c.ExecContext(ctx, "INSERT INTO kept VALUES (1, $1)", value.sent); err != nil {
				return err
			}
			found := value.into()
			return all(c.QueryRowContext(ctx, "SELECT c FROM kept WHERE n = $1", 1).Scan(found), same(read(found), value.wanted))
		}})
	}
	return checks
}

func pqTexts(expected Expected) []pqCheck {
	checks := []pqCheck{}
	for _, said := range expected.Texts {
		checks = append(checks, pqCheck{"texts." + said[0] + " " + said[1], func(ctx context.Context, c *sql.Conn) error {
			var found string
			err := c.QueryRowContext(ctx, fmt.Sprintf("SELECT $1::text::%s::text", said[0]), said[1]).Scan(&found)
			return all(err, same(found, said[2]))
		}})
	}
	return checks
}

func pqState(err error) string {
	var failed *pq.Error
	if errors.As(err, &failed) {
		return string(failed.Code)
	}
	return fmt.Sprintf("no error of the server: %v", err)
}

func pqErrors(expected Expected) []pqCheck {
	checks := []pqCheck{}
	for _, said := range expected.Errors {
		checks = append(checks, pqCheck{"errors." + said[0], func(ctx context.Context, c *sql.Conn) error {
			for _, statement := range errorsTable {
				if _, err := c.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			_, err := c.ExecContext(ctx, said[0])
			return same(pqState(err), said[1])
		}})
	}
	return checks
}

// copied sends rows to a table by COPY.
func copied(ctx context.Context, c *sql.Conn, rows [][]any) error {
	transaction, err := c.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = transaction.Rollback() }()
	statement, err := transaction.PrepareContext(ctx, `COPY "copied" ("a", "b") FROM STDIN`)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if _, err := statement.ExecContext(ctx, row...); err != nil {
			return err
		}
	}
	if _, err := statement.ExecContext(ctx); err != nil {
		return err
	}
	return all(statement.Close(), transaction.Commit())
}

func pqOthers() []pqCheck {
	return []pqCheck{
		{"results.described", func(ctx context.Context, c *sql.Conn) error {
			rows, err := c.QueryContext(ctx, "SELECT 1::integer AS a, 'x'::varchar(5) AS b, 1.5::numeric(6, 2) AS c, now() AS d")
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			kinds, err := rows.ColumnTypes()
			if err != nil {
				return err
			}
			names := []string{}
			for _, kind := range kinds {
				names = append(names, kind.DatabaseTypeName())
			}
			length, _ := kinds[1].Length()
			precision, scale, _ := kinds[2].DecimalSize()
			return all(same(names, []string{"INT4", "VARCHAR", "NUMERIC", "TIMESTAMPTZ"}), same(length, int64(5)),
				same([]int64{precision, scale}, []int64{6, 2}))
		}},
		{"parameters.prepared", func(ctx context.Context, c *sql.Conn) error {
			statement, err := c.PrepareContext(ctx, "SELECT $1::integer + 1")
			if err != nil {
				return err
			}
			for n := range 3 {
				var found int
				if err := all(statement.QueryRowContext(ctx, n).Scan(&found), same(found, n+1)); err != nil {
					return err
				}
			}
			return statement.Close()
		}},
		{"copy", func(ctx context.Context, c *sql.Conn) error {
			if _, err := c.ExecContext(ctx, "CREATE TEMP TABLE copied (a INTEGER, b TEXT)"); err != nil {
				return err
			}
			var a, b sql.NullString
			return all(
				copied(ctx, c, [][]any{{1, "x\ty"}, {2, nil}}),
				c.QueryRowContext(ctx, "SELECT string_agg(a::text, ','), string_agg(b, ',') FROM copied").Scan(&a, &b),
				same(len(a.String), 3), same(b.String, "x\ty"),
			)
		}},
		{"copy.wrong", func(ctx context.Context, c *sql.Conn) error {
			if _, err := c.ExecContext(ctx, "CREATE TEMP TABLE copied (a INTEGER, b TEXT)"); err != nil {
				return err
			}
			failed := copied(ctx, c, [][]any{{"x", "y"}})
			var count int
			return all(same(pqState(failed), "22P02"), c.QueryRowContext(ctx, "SELECT count(*) FROM copied").Scan(&count), same(count, 0))
		}},
		{"cursors", func(ctx context.Context, c *sql.Conn) error {
			transaction, err := c.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
			if err != nil {
				return err
			}
			defer func() { _ = transaction.Rollback() }()
			if _, err := transaction.ExecContext(ctx, "DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 10) AS s(n) ORDER BY n"); err != nil {
				return err
			}
			var first, second int
			return all(transaction.QueryRowContext(ctx, "FETCH 1 FROM c").Scan(&first),
				transaction.QueryRowContext(ctx, "FETCH 1 FROM c").Scan(&second), same([]int{first, second}, []int{1, 2}))
		}},
		{"transactions", func(ctx context.Context, c *sql.Conn) error {
			transaction, err := c.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			_, failed := transaction.ExecContext(ctx, "SELECT 1 / 0")
			_, later := transaction.ExecContext(ctx, "SELECT 1")
			return all(same(pqState(failed), "22012"), same(pqState(later), "25P02"), transaction.Rollback())
		}},
		{"errors.fields", func(ctx context.Context, c *sql.Conn) error {
			for _, statement := range errorsTable {
				if _, err := c.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			_, err := c.ExecContext(ctx, errorsTable[2])
			var failed *pq.Error
			if !errors.As(err, &failed) {
				return fmt.Errorf("no error of the server: %v", err)
			}
			return same([]string{failed.Severity, failed.Schema, failed.Table, failed.Constraint, failed.Detail},
				[]string{"ERROR", "public", "errors_of_it", "errors_of_it_pkey", "Key (id)=(1) already exists."})
		}},
		{"cancellation", func(ctx context.Context, c *sql.Conn) error {
			soon, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			var nothing sql.NullString
			err := c.QueryRowContext(soon, "SELECT pg_sleep(20)").Scan(&nothing)
			if err == nil {
				return errors.New("the statement was not cancelled")
			}
			return nil
		}},
		{"notifications", func(ctx context.Context, c *sql.Conn) error {
			listener := pq.NewListener("", time.Second, time.Second, nil)
			defer func() { _ = listener.Close() }()
			if err := listener.Listen("channel_of_pq"); err != nil {
				return err
			}
			if _, err := c.ExecContext(ctx, "NOTIFY channel_of_pq, 'word'"); err != nil {
				return err
			}
			select {
			case said := <-listener.Notify:
				return same([]string{said.Channel, said.Extra}, []string{"channel_of_pq", "word"})
			case <-ctx.Done():
				return ctx.Err()
			}
		}},
	}
}

func runPq(expected Expected) {
	checks := append(append(append(pqTypes(), pqTexts(expected)...), pqOthers()...), pqErrors(expected)...)
	connect := func(ctx context.Context) (*sql.Conn, error) {
		database, err := sql.Open("postgres", "sslmode=disable")
		if err != nil {
			return nil, err
		}
		return database.Conn(ctx)
	}
	run(checks, connect, func(c *sql.Conn) { _ = c.Close() })
}
