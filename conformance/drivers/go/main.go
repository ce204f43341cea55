// Runs the suites of the drivers for Go, pgx or lib/pq (through database/sql), against the server of PGHOST, PGPORT, PGUSER, PGPASSWORD
// and PGDATABASE. Prints a line per check, as ../checks.py describes.
//
//	drivers EXPECTED.json pgx|pq
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"
)

// Expected is what all drivers expect: wrong statements with their SQLSTATEs, and texts with their types and what they become.
type Expected struct {
	Errors [][2]string `json:"errors"`
	Texts  [][3]string `json:"texts"`
}

// errorsTable is the table of the wrong statements, with a row.
var errorsTable = []string{
	"DROP TABLE IF EXISTS errors_of_it",
	"CREATE TABLE errors_of_it (id INTEGER PRIMARY KEY, name VARCHAR(3), n INTEGER CHECK (n > 0))",
	"INSERT INTO errors_of_it VALUES (1, 'a', 1)",
}

// A check has a connection of its own.
type check[C any] struct {
	name string
	run  func(ctx context.Context, connection C) error
}

func run[C any](checks []check[C], connect func(ctx context.Context) (C, error), end func(C)) {
	for _, one := range checks {
		if err := limited(one, connect, end); err != nil {
			fmt.Printf("WRONG %s: %s\n", one.name, strings.Join(strings.Fields(err.Error()), " "))
		} else {
			fmt.Printf("ok %s\n", one.name)
		}
	}
	fmt.Println("end")
}

func limited[C any](one check[C], connect func(ctx context.Context) (C, error), end func(C)) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	connection, err := connect(ctx)
	if err != nil {
		return err
	}
	defer end(connection)
	return one.run(ctx, connection)
}

// same is an error unless a value is as wanted.
func same(found, wanted any) error {
	if !reflect.DeepEqual(found, wanted) {
		return fmt.Errorf("expected %#v, and found %#v", wanted, found)
	}
	return nil
}

// all is the first error.
func all(errors ...error) error {
	for _, err := range errors {
		if err != nil {
			return err
		}
	}
	return nil
}

func main() {
	var expected Expected
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(text, &expected)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Args[2] == "pgx" {
		runPgx(expected)
	} else {
		runPq(expected)
	}
}
