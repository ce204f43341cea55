// Runs Freestone's ADBC driver for another process, with Arrow's package for Go. The driver manager for Go is not needed: the program loads
// the driver itself. Requests and responses are those of Jdbc.java: lines of words and texts in base64.
//
//	conformance DRIVER URI
package main

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "adbc.h"
import "C"

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/cdata"
)

// Failure is an error of the driver with its SQLSTATE.
type Failure struct{ state, message string }

func (f Failure) Error() string { return f.state + " " + f.message }

// Client is a connection. Its structures are memory of C, because the driver keeps pointers to them.
type Client struct {
	driver               *C.struct_AdbcDriver
	database, connection *C.struct_Handle
}

func zeroed[T any]() *T {
	var t T
	return (*T)(C.calloc(1, C.size_t(unsafe.Sizeof(t))))
}

// call gives a function of the driver an error to fill, and returns it.
func call(function func(*C.struct_AdbcError) C.uint8_t) error {
	failed := zeroed[C.struct_AdbcError]()
	defer C.free(unsafe.Pointer(failed))
	C.end_error(failed)
	if function(failed) == 0 {
		return nil
	}
	state := strings.TrimRight(string(C.GoBytes(unsafe.Pointer(&failed.sqlstate[0]), 5)), "\x00")
	failure := Failure{state, C.GoString(failed.message)}
	C.end_error(failed)
	return failure
}

func withText(text string, use func(*C.char) error) error {
	given := C.CString(text)
	defer C.free(unsafe.Pointer(given))
	return use(given)
}

func open(path, uri string) (*Client, error) {
	c := &Client{zeroed[C.struct_AdbcDriver](), zeroed[C.struct_Handle](), zeroed[C.struct_Handle]()}
	failed := zeroed[C.struct_AdbcError]()
	if err := withText(path, func(path *C.char) error {
		if wrong := C.load(path, c.driver, failed); wrong != nil {
			return Failure{"", C.GoString(wrong)}
		}
		return nil
	}); err != nil {
		return nil, err
	}
	d := c.driver
	set := func(e *C.struct_AdbcError) C.uint8_t {
		key, value := C.CString("uri"), C.CString(uri)
		defer C.free(unsafe.Pointer(key))
		defer C.free(unsafe.Pointer(value))
		return C.call_set(d.database_set_option, c.database, key, value, e)
	}
	for _, step := range []func(*C.struct_AdbcError) C.uint8_t{
		func(e *C.struct_AdbcError) C.uint8_t { return C.call_new(d.database_new, c.database, e) },
		set,
		func(e *C.struct_AdbcError) C.uint8_t { return C.call_new(d.database_init, c.database, e) },
		func(e *C.struct_AdbcError) C.uint8_t { return C.call_new(d.connection_new, c.connection, e) },
		func(e *C.struct_AdbcError) C.uint8_t {
			return C.call_of(d.connection_init, c.connection, c.database, e)
		},
	} {
		if err := call(step); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// execute runs a statement with types and values of its parameters, and gives each row to `row`. `started` may cancel it.
func (c *Client) execute(texts []string, started func(cancel func()), row func(string)) error {
	d, statement := c.driver, zeroed[C.struct_Handle]()
	defer C.free(unsafe.Pointer(statement))
	if err := call(func(e *C.struct_AdbcError) C.uint8_t { return C.call_of(d.statement_new, c.connection, statement, e) }); err != nil {
		return err
	}
	defer call(func(e *C.struct_AdbcError) C.uint8_t { return C.call_new(d.statement_release, statement, e) })
	if err := withText(texts[0], func(text *C.char) error {
		return call(func(e *C.struct_AdbcError) C.uint8_t {
			return C.call_query(d.statement_set_sql_query, statement, text, e)
		})
	}); err != nil {
		return err
	}
	if len(texts) > 1 {
		array, schema := zeroed[C.struct_ArrowArray](), zeroed[C.struct_ArrowSchema]()
		cdata.ExportArrowRecordBatch(parameters(texts[1:]), cdata.ArrayFromPtr(uintptr(unsafe.Pointer(array))), cdata.SchemaFromPtr(uintptr(unsafe.Pointer(schema))))
		if err := call(func(e *C.struct_AdbcError) C.uint8_t {
			return C.call_bind(d.statement_bind, statement, array, schema, e)
		}); err != nil {
			return err
		}
	}
	if started != nil {
		started(func() {
			_ = call(func(e *C.struct_AdbcError) C.uint8_t { return C.call_new(d.statement_cancel, statement, e) })
		})
	}
	stream := zeroed[C.struct_ArrowArrayStream]()
	defer C.free(unsafe.Pointer(stream))
	if err := call(func(e *C.struct_AdbcError) C.uint8_t {
		return C.call_execute(d.statement_execute_query, statement, stream, e)
	}); err != nil {
		return err
	}
	defer C.end_stream(stream)
	return c.read(stream, row)
}

func (c *Client) read(stream *C.struct_ArrowArrayStream, row func(string)) error {
	failed := func() error {
		state := (*C.char)(C.calloc(1, 6))
		defer C.free(unsafe.Pointer(state))
		C.state_of_stream(c.driver, stream, state)
		return Failure{C.GoString(state), C.GoString(C.last_error(stream))}
	}
	given := zeroed[C.struct_ArrowSchema]()
	if C.next_schema(stream, given) != 0 {
		return failed()
	}
	schema, err := cdata.ImportCArrowSchema(cdata.SchemaFromPtr(uintptr(unsafe.Pointer(given))))
	if err != nil {
		return err
	}
	for {
		array := zeroed[C.struct_ArrowArray]()
		if C.next_array(stream, array) != 0 {
			return failed()
		}
		if array.release == nil {
			return nil
		}
		batch, err := cdata.ImportCRecordBatchWithSchema(cdata.ArrayFromPtr(uintptr(unsafe.Pointer(array))), schema)
		if err != nil {
			return err
		}
		if err := rows(batch, row); err != nil {
			return err
		}
		batch.Release()
	}
}

func rows(batch arrow.RecordBatch, row func(string)) error {
	for at := 0; at < int(batch.NumRows()); at++ {
		parts := []string{"row"}
		for _, column := range batch.Columns() {
			value, err := written(column, at)
			if err != nil {
				return err
			}
			parts = append(parts, value)
		}
		row(strings.Join(parts, " "))
	}
	return nil
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func (c *Client) answer(out *bufio.Writer, line string) {
	words := strings.Split(line, " ")
	texts := []string{}
	for _, word := range words[1:] {
		text, err := base64.StdEncoding.DecodeString(word)
		if err != nil {
			fmt.Fprintln(out, "error "+encoded("null "+err.Error()))
			return
		}
		texts = append(texts, string(text))
	}
	var started func(cancel func())
	if words[0] == "cancel" {
		started = func(cancel func()) { time.AfterFunc(700*time.Millisecond, cancel) }
	}
	if err := c.execute(texts, started, func(row string) { fmt.Fprintln(out, row) }); err != nil {
		fmt.Fprintln(out, "error "+encoded(err.Error()))
		return
	}
	fmt.Fprintln(out, "end")
}

func main() {
	client, err := open(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprintln(out, "ready")
	_ = out.Flush()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		client.answer(out, in.Text())
		_ = out.Flush()
	}
	_ = call(func(e *C.struct_AdbcError) C.uint8_t {
		return C.call_new(client.driver.connection_release, client.connection, e)
	})
	_ = call(func(e *C.struct_AdbcError) C.uint8_t {
		return C.call_new(client.driver.database_release, client.database, e)
	})
}
