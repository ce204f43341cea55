package main

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// parameters is a row of values, given as types and texts in turn.
func parameters(texts []string) arrow.RecordBatch {
	fields, columns := []arrow.Field{}, []arrow.Array{}
	for at := 0; at < len(texts); at += 2 {
		column := parameter(texts[at], texts[at+1])
		fields = append(fields, arrow.Field{Name: strconv.Itoa(at / 2), Type: column.DataType(), Nullable: true})
		columns = append(columns, column)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columns, 1)
}

func parameter(kind, text string) arrow.Array {
	switch kind {
	case "INTEGER", "BIGINT":
		number, _ := strconv.ParseInt(text, 10, 64)
		builder := array.NewInt64Builder(memory.DefaultAllocator)
		builder.Append(number)
		return builder.NewArray()
	case "DOUBLE":
		number, _ := strconv.ParseFloat(text, 64)
		builder := array.NewFloat64Builder(memory.DefaultAllocator)
		builder.Append(number)
		return builder.NewArray()
	case "BOOLEAN":
		builder := array.NewBooleanBuilder(memory.DefaultAllocator)
		builder.Append(text == "True")
		return builder.NewArray()
	case "DECIMAL":
		_, digits, _ := strings.Cut(text, ".")
		kind := &arrow.Decimal128Type{Precision: 38, Scale: int32(len(digits))}
		builder := array.NewDecimal128Builder(memory.DefaultAllocator, kind)
		number, _ := decimal128.FromString(text, kind.Precision, kind.Scale)
		builder.Append(number)
		return builder.NewArray()
	case "DATE":
		day, _ := time.Parse("2006-01-02", text)
		builder := array.NewDate32Builder(memory.DefaultAllocator)
		builder.Append(arrow.Date32FromTime(day))
		return builder.NewArray()
	case "TIMESTAMP":
		instant, _ := time.Parse("2006-01-02 15:04:05", text)
		builder := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
		builder.Append(arrow.Timestamp(instant.UnixMicro()))
		return builder.NewArray()
	}
	builder := array.NewStringBuilder(memory.DefaultAllocator)
	builder.Append(text)
	return builder.NewArray()
}

// written is a value as a letter for its type, and base64, or the bits in hexadecimal for floating-point numbers.
func written(column arrow.Array, at int) (string, error) {
	if column.IsNull(at) {
		return "N", nil
	}
	plain := func(value any) (string, error) { return "v" + encoded(fmt.Sprint(value)), nil }
	switch column := column.(type) {
	case *array.Null:
		return "N", nil
	case *array.Float32:
		return fmt.Sprintf("f%08x", math.Float32bits(column.Value(at))), nil
	case *array.Float64:
		return fmt.Sprintf("d%016x", math.Float64bits(column.Value(at))), nil
	case *array.String:
		return "s" + encoded(column.Value(at)), nil
	case *array.Binary:
		return "x" + base64.StdEncoding.EncodeToString(column.Value(at)), nil
	case *array.Boolean:
		return plain(column.Value(at))
	case *array.Int8, *array.Int16, *array.Int32, *array.Int64, *array.Uint8, *array.Uint16, *array.Uint32, *array.Uint64:
		return plain(column.ValueStr(at))
	case *array.Decimal128:
		return plain(column.Value(at).ToString(column.DataType().(*arrow.Decimal128Type).Scale))
	case *array.Date32:
		return plain(column.Value(at).ToTime().Format("2006-01-02"))
	case *array.Time64:
		kind := column.DataType().(*arrow.Time64Type)
		return plain(clock(column.Value(at).ToTime(kind.Unit)))
	case *array.Timestamp:
		kind := column.DataType().(*arrow.TimestampType)
		instant, zone := column.Value(at).ToTime(kind.Unit), ""
		if kind.TimeZone != "" {
			zone = "+00:00"
		}
		return plain(instant.Format("2006-01-02 ") + clock(instant) + zone)
	}
	return "", fmt.Errorf("a value of type %v has no form here", column.DataType())
}

// clock is a time of day, with six digits of a second if it has a fraction.
func clock(instant time.Time) string {
	if instant.Nanosecond() == 0 {
		return instant.Format("15:04:05")
	}
	return instant.Format("15:04:05.000000")
}
