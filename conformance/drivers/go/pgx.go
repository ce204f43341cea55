package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

type pgxCheck = check[*pgx.Conn]

func pointer[T any](value T) *T { return &value }

// typed checks that a value of a type of SQL goes and comes back, in a query and in a column, and so does NULL.
func typed[T any](name, of string, value T) []pgxCheck {
	in := func(ctx context.Context, c *pgx.Conn, sql string, arguments ...any) error {
		var found *T
		if err := c.QueryRow(ctx, sql, arguments...).Scan(&found); err != nil {
			return err
		}
		if found == nil {
			return fmt.Errorf("expected %v, and found NULL", value)
		}
		if at, is := any(*found).(time.Time); is {
			return same(at.UTC(), any(value).(time.Time).UTC())
		}
		return same(*found, value)
	}
	isNull := func(ctx context.Context, c *pgx.Conn, sql string, arguments ...any) error {
		var found *T
		if err := c.QueryRow(ctx, sql, arguments...).Scan(&found); err != nil {
			return err
		}
		if found != nil {
			return fmt.Errorf("expected NULL, and found %v", *found)
		}
		return nil
	}
	return []pgxCheck{
		{"types." + name, func(ctx context.Context, c *pgx.Conn) error {
			sql := fmt.Sprintf("SELECT $1::%s", of)
			return all(in(ctx, c, sql, value), isNull(ctx, c, sql, nil))
		}},
		{"columns." + name, func(ctx context.Context, c *pgx.Conn) error {
			_, err := c.Exec(ctx, fmt.Sprintf("CREATE TEMP TABLE kept (n INTEGER, c %s)", of))
			if err != nil {
				return err
			}
			if _, err = c.Exec(ctx, "INSERT INTO kept VALUES ($1, $2), ($3, $4)", 1, value, 2, nil); err != nil {
				return err
			}
			return all(in(ctx, c, "SELECT c FROM kept WHERE n = $1", 1), isNull(ctx, c, "SELECT c FROM kept WHERE n = 2"))
		}},
	}
}

func pgxTypes() []pgxCheck {
	at := time.Date(2024, 2, 29, 10, 20, 30, 123456000, time.UTC)
	list := [][]pgxCheck{
		typed("smallint", "smallint", int16(-7)),
		typed("integer", "integer", int32(70000)),
		typed("bigint", "bigint", int64(1)<<62),
		typed("real", "real", float32(1.5)),
		typed("double", "double precision", 2.25),
		typed("numeric", "numeric(10, 2)", pgtype.Numeric{Int: big.NewInt(1230), Exp: -2, Valid: true}),
		typed("text", "text", "ä 日本語 '\"\\"),
		typed("varchar", "varchar(10)", "abc"),
		typed("boolean", "boolean", true),
		typed("date", "date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)),
		typed("time", "time", pgtype.Time{Microseconds: 37230500000, Valid: true}),
		typed("timestamp", "timestamp", at),
		typed("timestamp with zone", "timestamptz", at),
		typed("interval", "interval", pgtype.Interval{Microseconds: 4000000, Days: 3, Months: 2, Valid: true}),
		typed("uuid", "uuid", [16]byte{0xa0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}),
		typed("bytea", "bytea", []byte{0, 255, '\\'}),
		typed("json", "json", map[string]any{"a": []any{1.0, nil}}),
		typed("jsonb", "jsonb", map[string]any{"a": []any{1.0, nil}}),
		typed("inet", "inet", netip.MustParsePrefix("192.168.0.1/24")),
		typed("cidr", "cidr", netip.MustParsePrefix("192.168.0.0/24")),
		typed("bits", "bit(3)", pgtype.Bits{Bytes: []byte{0xa0}, Len: 3, Valid: true}),
		typed("integers", "integer[]", []*int32{pointer(int32(1)), nil, pointer(int32(3))}),
		typed("texts", "text[]", []string{"a,b", "\"", ""}),
		typed("two dimensions", "integer[][]", pgtype.Array[int32]{
			Elements: []int32{1, 2, 3, 4}, Dims: []pgtype.ArrayDimension{{Length: 2, LowerBound: 1}, {Length: 2, LowerBound: 1}}, Valid: true,
		}),
		typed("timestamps", "timestamp[]", []time.Time{at}),
	}
	checks := []pgxCheck{}
	for _, some := range list {
		checks = append(checks, some...)
	}
	return checks
}

func pgxTexts(expected Expected) []pgxCheck {
	checks := []pgxCheck{}
	for _, said := range expected.Texts {
		checks = append(checks, pgxCheck{"texts." + said[0] + " " + said[1], func(ctx context.Context, c *pgx.Conn) error {
			var found string
			err := c.QueryRow(ctx, fmt.Sprintf("SELECT $1::text::%s::text", said[0]), said[1]).Scan(&found)
			return all(err, same(found, said[2]))
		}})
	}
	return checks
}

func state(err error) string {
	var failed *pgconn.PgError
	if errors.As(err, &failed) {
		return failed.Code
	}
	return fmt.Sprintf("no error of the server: %v", err)
}

func pgxErrors(expected Expected) []pgxCheck {
	checks := []pgxCheck{}
	for _, said := range expected.Errors {
		checks = append(checks, pgxCheck{"errors." + said[0], func(ctx context.Context, c *pgx.Conn) error {
			for _, sql := range errorsTable {
				if _, err := c.Exec(ctx, sql); err != nil {
					return err
				}
			}
			_, extended := c.Exec(ctx, said[0])
			_, simple := c.Exec(ctx, said[0], pgx.QueryExecModeSimpleProtocol)
			return all(same(state(extended), said[1]), same(state(simple), said[1]))
		}})
	}
	return checks
}

func pgxOthers() []pgxCheck {
	return []pgxCheck{
		{"parameters.described", func(ctx context.Context, c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "CREATE TEMP TABLE described (a INTEGER, b TEXT, c TIMESTAMP, d VARCHAR(7), e JSONB)"); err != nil {
				return err
			}
			said, err := c.Prepare(ctx, "insert", "INSERT INTO described VALUES ($1, $2, $3, $4, $5) RETURNING a, b, c, d, e")
			if err != nil {
				return err
			}
			columns := []uint32{}
			for _, field := range said.Fields {
				columns = append(columns, field.DataTypeOID)
			}
			oids := []uint32{23, 25, 1114, 1043, 3802}
			return all(same(said.ParamOIDs, oids), same(columns, oids))
		}},
		{"parameters.modes", func(ctx context.Context, c *pgx.Conn) error {
			for _, mode := range []pgx.QueryExecMode{
				pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
				pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
			} {
				var text string
				var at time.Time
				var list []int32
				given := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
				row := c.QueryRow(ctx, "SELECT $1::text, $2::timestamptz, $3::integer[]", mode, "it's", given, []int32{1, 2})
				if err := all(row.Scan(&text, &at, &list), same(text, "it's"), same(at.UTC(), given), same(list, []int32{1, 2})); err != nil {
					return fmt.Errorf("%v: %w", mode, err)
				}
			}
			return nil
		}},
		{"enums", func(ctx context.Context, c *pgx.Conn) error {
			for _, sql := range []string{"DROP TYPE IF EXISTS mood_of_pgx", "CREATE TYPE mood_of_pgx AS ENUM ('sad', 'ok')"} {
				if _, err := c.Exec(ctx, sql); err != nil {
					return err
				}
			}
			for _, name := range []string{"mood_of_pgx", "_mood_of_pgx"} {
				of, err := c.LoadType(ctx, name)
				if err != nil {
					return err
				}
				c.TypeMap().RegisterType(of)
			}
			var one string
			var several []string
			row := c.QueryRow(ctx, "SELECT $1::mood_of_pgx, $2::mood_of_pgx[]", "ok", []string{"ok", "sad"})
			return all(row.Scan(&one, &several), same(one, "ok"), same(several, []string{"ok", "sad"}))
		}},
		{"batches", func(ctx context.Context, c *pgx.Conn) error {
			batch := &pgx.Batch{}
			batch.Queue("CREATE TEMP TABLE batch (a INTEGER PRIMARY KEY)")
			if err := c.SendBatch(ctx, batch).Close(); err != nil {
				return err
			}
			batch = &pgx.Batch{}
			for _, n := range []int{1, 2, 1} {
				batch.Queue("INSERT INTO batch VALUES ($1)", n)
			}
			failed := c.SendBatch(ctx, batch).Close()
			var count int
			return all(same(state(failed), "23505"), c.QueryRow(ctx, "SELECT count(*) FROM batch").Scan(&count), same(count, 0))
		}},
		{"copy.from", func(ctx context.Context, c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "CREATE TEMP TABLE copied (a INTEGER, b TEXT, c TIMESTAMP)"); err != nil {
				return err
			}
			at := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
			rows := [][]any{{int32(1), "x", at}, {int32(2), nil, nil}}
			count, err := c.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"a", "b", "c"}, pgx.CopyFromRows(rows))
			if err := all(err, same(count, int64(2))); err != nil {
				return err
			}
			out := &bytes.Buffer{}
			_, err = c.PgConn().CopyTo(ctx, out, "COPY (SELECT * FROM copied ORDER BY a) TO STDOUT")
			return all(err, same(out.String(), "1\tx\t2024-02-29 00:00:00\n2\t\\N\t\\N\n"))
		}},
		{"copy.wrong", func(ctx context.Context, c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "CREATE TEMP TABLE copied (a INTEGER PRIMARY KEY)"); err != nil {
				return err
			}
			_, err := c.CopyFrom(ctx, pgx.Identifier{"copied"}, []string{"a"}, pgx.CopyFromRows([][]any{{int32(1)}, {int32(1)}}))
			var count int
			return all(same(state(err), "23505"), c.QueryRow(ctx, "SELECT count(*) FROM copied").Scan(&count), same(count, 0))
		}},
		{"cursors", func(ctx context.Context, c *pgx.Conn) error {
			transaction, err := c.Begin(ctx)
			if err != nil {
				return err
			}
			defer func() { _ = transaction.Rollback(ctx) }()
			_, err = transaction.Exec(ctx, "DECLARE c CURSOR FOR SELECT n::integer FROM generate_series(1, 10) AS s(n) ORDER BY n")
			if err != nil {
				return err
			}
			rows, err := transaction.Query(ctx, "FETCH 3 FROM c")
			if err != nil {
				return err
			}
			found, err := pgx.CollectRows(rows, pgx.RowTo[int32])
			return all(err, same(found, []int32{1, 2, 3}))
		}},
		{"transactions", func(ctx context.Context, c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "CREATE TEMP TABLE changed (a INTEGER)"); err != nil {
				return err
			}
			err := pgx.BeginFunc(ctx, c, func(outer pgx.Tx) error {
				if _, err := outer.Exec(ctx, "INSERT INTO changed VALUES (1)"); err != nil {
					return err
				}
				failed := pgx.BeginFunc(ctx, outer, func(inner pgx.Tx) error {
					_, err := inner.Exec(ctx, "SELECT 1 / 0")
					return err
				})
				return same(state(failed), "22012")
			})
			var count int
			return all(err, c.QueryRow(ctx, "SELECT count(*) FROM changed").Scan(&count), same(count, 1))
		}},
		{"notifications", func(ctx context.Context, c *pgx.Conn) error {
			for _, sql := range []string{"LISTEN channel_of_pgx", "NOTIFY channel_of_pgx, 'word'"} {
				if _, err := c.Exec(ctx, sql); err != nil {
					return err
				}
			}
			said, err := c.WaitForNotification(ctx)
			if err != nil {
				return err
			}
			return same([]string{said.Channel, said.Payload}, []string{"channel_of_pgx", "word"})
		}},
		{"cancellation", func(ctx context.Context, c *pgx.Conn) error {
			time.AfterFunc(300*time.Millisecond, func() { _ = c.PgConn().CancelRequest(ctx) })
			_, err := c.Exec(ctx, "SELECT pg_sleep(20)")
			var one int
			return all(same(state(err), "57014"), c.QueryRow(ctx, "SELECT 1").Scan(&one), same(one, 1))
		}},
	}
}

func runPgx(expected Expected) {
	checks := append(append(append(pgxTypes(), pgxTexts(expected)...), pgxOthers()...), pgxErrors(expected)...)
	connect := func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, "") }
	run(checks, connect, func(c *pgx.Conn) { _ = c.Close(context.Background()) })
}
