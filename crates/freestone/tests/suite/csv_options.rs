//! The options of CSV files in queries and COPY FROM. Names and meanings are those of DuckDB; what it gives for a case is
//! what is expected here, unless a comment says otherwise.

use crate::files::Place;

#[tokio::test]
async fn dates_and_timestamps_have_formats() {
    let place = Place::new();
    place.write("d.csv", "id,day,at\n1,31/12/2023,31.12.2023 10:11:12.5\n2,01/02/2024,01.01.2024 00:00:00.0\n");
    place.check("SELECT typeof(day), typeof(at) FROM '@/d.csv' LIMIT 1", &["VARCHAR|VARCHAR"]).await;
    let csv = "read_csv('@/d.csv', dateformat='%d/%m/%Y', timestampformat='%d.%m.%Y %H:%M:%S.%f'";
    place
        .check(
            &format!("SELECT id, day, at FROM {csv}) ORDER BY 1"),
            &["1|2023-12-31|2023-12-31T10:11:12.500", "2|2024-02-01|2024-01-01T00:00:00"],
        )
        .await;
    place.check(&format!("SELECT typeof(day), typeof(at) FROM {csv}) LIMIT 1"), &["DATE|TIMESTAMP"]).await;
    place.check(&format!("SELECT typeof(day) FROM {csv}, all_varchar=true) LIMIT 1"), &["VARCHAR"]).await;
    place.check("SELECT typeof(day) FROM read_csv('@/d.csv', dateformat='%m/%d/%Y') LIMIT 1", &["VARCHAR"]).await;
    place
        .check_error("SELECT * FROM read_csv('@/d.csv', types={'day': 'DATE'}, dateformat='%m/%d/%Y')", "line 2")
        .await;
    place
        .check_error("SELECT * FROM read_csv('@/d.csv', types={'day': 'TIMESTAMP'}, dateformat='%d/%m/%Y')", "line 2")
        .await;
    place
        .check(
            "SELECT max(day) FROM read_csv('@/d.csv', types={'day': 'DATE'}, dateformat='%d/%m/%Y')",
            &["2024-02-01"],
        )
        .await;
    // Digits in the format of a date are dates, and ISO dates are timestamps then.
    place.write("n.csv", "20240229,2024-02-29\n20240301,2024-03-01\n");
    place
        .check(
            "SELECT column0, typeof(column1) FROM read_csv('@/n.csv', dateformat='%Y%m%d', header=false) LIMIT 1",
            &["2024-02-29|TIMESTAMP"],
        )
        .await;
    // Time zones.
    place.write("z.csv", "at\n2024-07-01 12:00+0200\n");
    let zoned = "read_csv('@/z.csv', timestampformat='%Y-%m-%d %H:%M%z'";
    place.check(&format!("SELECT at, typeof(at) FROM {zoned})"), &["2024-07-01T10:00:00|TIMESTAMP"]).await;
    place.check(&format!("SELECT at FROM {zoned}, types={{'at': 'TIMESTAMPTZ'}})"), &["2024-07-01T10:00:00Z"]).await;
    for wrong in ["dateformat='%Q'", "dateformat=''", "timestampformat='%'"] {
        place.check_error(&format!("SELECT * FROM read_csv('@/d.csv', {wrong})"), "format").await;
    }
    place.run("CREATE TABLE t (id INT, day DATE, at TIMESTAMP)").await.expect("a table");
    let copied =
        place.run("COPY t FROM '@/d.csv' (DATEFORMAT '%d/%m/%Y', TIMESTAMPFORMAT '%d.%m.%Y %H:%M:%S.%f')").await;
    copied.expect("rows");
    place.check("SELECT count(*), min(day), max(at) FROM t", &["2|2023-12-31|2024-01-01T00:00:00"]).await;
}

#[tokio::test]
async fn numbers_have_separators() {
    let place = Place::new();
    place.write("n.csv", "id;x;n\n1;1.234,5;1.000\n2;-0,25;7\n3;;\n");
    let csv = "read_csv('@/n.csv', decimal_separator=',', thousands='.')";
    place
        .check(
            &format!("SELECT id, x, n, typeof(x), typeof(n) FROM {csv} ORDER BY id"),
            &["1|1234.5|1000|DOUBLE|BIGINT", "2|-0.25|7|DOUBLE|BIGINT", "3|~|~|DOUBLE|BIGINT"],
        )
        .await;
    place.check("SELECT typeof(x) FROM read_csv('@/n.csv', decimal_separator=',') LIMIT 1", &["VARCHAR"]).await;
    let declared = "types={'x': 'DECIMAL(8, 2)'}, decimal_separator=',', thousands='.'";
    place.check(&format!("SELECT sum(x) FROM read_csv('@/n.csv', {declared})"), &["1234.25"]).await;
    // A point is no digit, and groups have three digits: 1.2 is not 12.
    place.write("p.csv", "x\n1.5\n");
    place.check("SELECT typeof(x) FROM read_csv('@/p.csv', decimal_separator=',')", &["VARCHAR"]).await;
    let declared = "types={'x': 'DOUBLE'}, decimal_separator=',', thousands='.'";
    place.check_error(&format!("SELECT * FROM read_csv('@/p.csv', {declared})"), "'1.5' is not a DOUBLE").await;
    place.run("CREATE TABLE t (id INT, x DECIMAL(10, 2), n BIGINT)").await.expect("a table");
    place.run("COPY t FROM '@/n.csv' (DECIMAL_SEPARATOR ',', THOUSANDS '.')").await.expect("rows");
    place.check("SELECT sum(x), sum(n) FROM t", &["1234.25|1007"]).await;
    for wrong in ["decimal_separator=';'", "thousands='ab'", "thousands=',', decimal_separator=','", "thousands='.'"] {
        place.check_error(&format!("SELECT * FROM read_csv('@/n.csv', {wrong})"), "").await;
    }
}

#[tokio::test]
async fn texts_have_encodings() {
    let place = Place::new();
    let utf16 = |big: bool, mark: bool| {
        let text = format!("{}id,v\r\n1,\"é\n€\"\r\n2,😀\r\n", if mark { "\u{feff}" } else { "" });
        text.encode_utf16()
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect::<Vec<u8>>()
    };
    place.write("l.csv", b"id,v\n1,caf\xe9\n");
    place.write("w.csv", b"id,v\n1,\x80\n");
    for (name, big, mark) in [("le.csv", false, true), ("be.csv", true, true), ("plain.csv", false, false)] {
        place.write(name, utf16(big, mark));
        let csv = format!("read_csv('@/{name}', encoding='utf-16')");
        place.check(&format!("SELECT id, replace(v, chr(10), '/') FROM {csv} ORDER BY id"), &["1|é/€", "2|😀"]).await;
    }
    for name in ["latin-1", "LATIN1", "iso-8859-1", "windows-1252"] {
        place.check(&format!("SELECT v FROM read_csv('@/l.csv', encoding='{name}')"), &["café"]).await;
    }
    place.check("SELECT v FROM read_csv('@/w.csv', encoding='cp1252')", &["€"]).await;
    place.check("SELECT ord(v) FROM read_csv('@/w.csv', encoding='latin-1')", &["128"]).await;
    place.check_error("SELECT * FROM '@/l.csv'", "invalid UTF-8 at byte 10").await;
    place.check_error("SELECT * FROM '@/le.csv'", "say ENCODING 'utf-16'").await;
    place.check_error("SELECT * FROM read_csv('@/l.csv', encoding='nope')", "no encoding 'nope'").await;
    place.check_error("SELECT * FROM read_csv('@/l.csv', encoding='shift_jis')", "no text in Shift_JIS").await;
    place.run("CREATE TABLE t (id INT, v VARCHAR)").await.expect("a table");
    place.run("COPY t FROM '@/le.csv' (ENCODING 'utf-16')").await.expect("rows");
    place.check("SELECT v FROM t WHERE id = 2", &["😀"]).await;
    // More than a block, and compressed.
    let lines: String = (0..200_000).map(|i| format!("{i},é{i}\n")).collect();
    let latin: Vec<u8> = lines.chars().map(|c| c as u32 as u8).collect();
    let mut packed = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, &latin).expect("bytes");
    place.write("big.csv.gz", packed.finish().expect("bytes"));
    let big = "read_csv('@/big.csv.gz', encoding='latin-1', header=false)";
    place
        .check(
            &format!("SELECT count(*), sum(column0), count(DISTINCT column1) FROM {big} WHERE column1 LIKE 'é%'"),
            &["200000|19999900000|200000"],
        )
        .await;
}

const BAD: &str = "id,v\n1,a\nx,b\n3\n4,d,e\n5,\"un\"q\n6,f\n7,\"g\ng\"\n";

#[tokio::test]
async fn errors_are_left_out_and_kept() {
    let place = Place::new();
    place.write("bad.csv", BAD);
    let csv = "read_csv('@/bad.csv', columns={'id': 'INT', 'v': 'VARCHAR'}, ";
    place.check(&format!("SELECT id FROM {csv} ignore_errors=true)"), &["1", "6", "7"]).await;
    // The same rows whichever columns are read; DuckDB counts a row whose id is not read.
    place.check(&format!("SELECT count(*) FROM {csv} ignore_errors=true)"), &["3"]).await;
    place.check(&format!("SELECT v FROM {csv} ignore_errors=true) WHERE v < 'c'"), &["a"]).await;
    place.check_error("SELECT * FROM reject_errors", "no table or view reject_errors").await;
    place.check(&format!("SELECT count(*) FROM {csv} store_rejects=true)"), &["3"]).await;
    place
        .check(
            "SELECT line, line_byte_position, column_idx, column_name, error_type, csv_line FROM reject_errors",
            &[
                "3|10|1|id|CAST|x,b",
                "4|14|1|v|MISSING COLUMNS|3",
                "5|16|3|~|TOO MANY COLUMNS|4,d,e",
                "6|22|~|~|UNQUOTED VALUE|5,\"un\"q",
            ],
        )
        .await;
    place
        .check(
            "SELECT error_message FROM reject_errors LIMIT 2",
            &[
                "Error when converting column \"id\". Could not convert string \"x\" to 'INTEGER'",
                "Expected Number of Columns: 2 Found: 1",
            ],
        )
        .await;
    place
        .check(
            "SELECT scan_id, file_id, delimiter, skip_rows, has_header, columns FROM reject_scans",
            &["0|0|,|0|true|{'id': 'INTEGER', 'v': 'VARCHAR'}"],
        )
        .await;
    let named = "rejects_table='re', rejects_scan='rs', rejects_limit=2";
    place.check(&format!("SELECT count(*) FROM {csv} {named})"), &["3"]).await;
    place.check("SELECT count(*), max(line) FROM re", &["2|4"]).await;
    place.check("SELECT count(*) FROM re JOIN rs USING (scan_id, file_id)", &["2"]).await;
    for wrong in ["store_rejects=true, ignore_errors=false", "rejects_limit=2", "rejects_table='x', rejects_scan='x'"] {
        place.check_error(&format!("SELECT * FROM {csv} {wrong})"), "REJECTS").await;
    }
    // The tables are dropped as others are, and the next scan begins new ones.
    place.run("DROP TABLE re").await.expect("a drop");
    place.check_error("SELECT * FROM re", "no table or view re").await;
    place.check("SELECT count(*) FROM rs", &["1"]).await;
    place.run("DROP TABLE reject_errors, reject_scans").await.expect("drops");
    place.check_error("DROP TABLE reject_scans", "no table reject_scans").await;
    place.run("DROP TABLE IF EXISTS reject_scans").await.expect("nothing to drop");
    place.check(&format!("SELECT count(*) FROM {csv} store_rejects=true)"), &["3"]).await;
    place.check("SELECT count(*) FROM reject_errors", &["4"]).await;
    // Inferred types: x is a text.
    place
        .check("SELECT typeof(id), count(*) FROM read_csv('@/bad.csv', ignore_errors=true) GROUP BY 1", &["VARCHAR|4"])
        .await;
    place.check_error("SELECT * FROM '@/bad.csv'", "expected 2").await;
}

#[tokio::test]
async fn copy_leaves_errors_out() {
    let place = Place::new();
    place.write("bad.csv", BAD);
    place.run("CREATE TABLE t (id INT NOT NULL, v VARCHAR)").await.expect("a table");
    place.run("COPY t FROM '@/bad.csv' (IGNORE_ERRORS)").await.expect("rows");
    place.check("SELECT count(*), sum(id) FROM t", &["3|14"]).await;
    place.run("COPY t FROM '@/bad.csv' (STORE_REJECTS true)").await.expect("rows");
    place.check("SELECT count(*), min(error_type) FROM reject_errors", &["4|CAST"]).await;
    place.check_error("COPY t FROM '@/bad.csv'", "line 3, column id: 'x' is not an INTEGER").await;
    // What the table refuses is an error.
    place.write("null.csv", "id,v\n,a\n");
    place.check_error("COPY t FROM '@/null.csv' (IGNORE_ERRORS)", "NULL in a NOT NULL column").await;
    place.write("utf.csv", b"id,v\n1,a\n2,\xff\n3,c\n");
    place.check("SELECT string_agg(v, '') FROM read_csv('@/utf.csv', ignore_errors=true)", &["ac"]).await;
    place.check_error("SELECT * FROM read_json('@/bad.csv', ignore_errors=true)", "IGNORE_ERRORS").await;
    // A quote that is never closed takes its line, and nested values are refused as a whole.
    place.write("open.csv", "id,v\n1,a\n2,\"b\n3,c\n");
    place.check("SELECT sum(id) FROM read_csv('@/open.csv', ignore_errors=true)", &["4"]).await;
    place.write("list.csv", "id;l\n1;[1, 2]\n2;[1, x]\n3;[]\n4;[3\n5;[4]\n");
    let lists = "read_csv('@/list.csv', types={'l': 'INT[]'}, ignore_errors=true)";
    place.check(&format!("SELECT id, l FROM {lists} ORDER BY id"), &["1|[1, 2]", "3|[]", "5|[4]"]).await;
}

/// Many blocks with errors everywhere: the same rows and rejects whatever the number of threads and the sizes of batches.
#[tokio::test]
async fn errors_in_many_blocks() {
    let place = Place::new();
    let line = |i: u32| match i % 1000 {
        13 => format!("x{i},a\n"),
        500 => format!("{i}\n"),
        700 => format!("{i},\"q\"r\n"),
        900 => format!("{i},\"{}\n\"\n", "y".repeat(50)),
        _ => format!("{i},{}\n", "z".repeat(i as usize % 80)),
    };
    let text: String = std::iter::once("id,v\n".to_owned()).chain((0..300_000).map(line)).collect();
    place.write("many.csv", text);
    let csv = "read_csv('@/many.csv', columns={'id': 'BIGINT', 'v': 'VARCHAR'}, store_rejects=true)";
    let sum: u64 = (0..300_000u64).filter(|i| ![13, 500, 700].contains(&(i % 1000))).sum();
    place.check(&format!("SELECT count(*), sum(id) FROM {csv}"), &[&format!("299100|{sum}")]).await;
    place
        .check(
            "SELECT error_type, count(*), count(DISTINCT line) FROM reject_errors GROUP BY 1 ORDER BY 1",
            &["CAST|300|300", "MISSING COLUMNS|300|300", "UNQUOTED VALUE|300|300"],
        )
        .await;
    // Lines 15, 1015, …, of which every line 900 before was two lines.
    place.check("SELECT min(line), max(line) FROM reject_errors WHERE error_type = 'CAST'", &["15|299314"]).await;
}

#[tokio::test]
async fn short_lines_are_padded() {
    let place = Place::new();
    place.write("pad.csv", "a,b,c\n1,2,3\n4,5\n6\n7,8,9\n");
    place.check("SELECT * FROM read_csv('@/pad.csv', null_padding=true)", &["1|2|3", "4|5|~", "6|~|~", "7|8|9"]).await;
    place.check("SELECT * FROM read_csv('@/pad.csv', ignore_errors=true)", &["1|2|3", "7|8|9"]).await;
    place.check_error("SELECT * FROM '@/pad.csv'", "has 2 fields, expected 3").await;
    place.write("more.csv", "a;b\n1;2\n4;5;6\n");
    place.check("SELECT a, b, column2 FROM read_csv('@/more.csv', null_padding=true)", &["1|2|~", "4|5|6"]).await;
    place.run("CREATE TABLE t (a INT, b INT, c INT)").await.expect("a table");
    place.run("COPY t FROM '@/pad.csv' (NULL_PADDING, HEADER)").await.expect("rows");
    place.check("SELECT count(b), count(c) FROM t", &["3|2"]).await;
    place.check_error("COPY t FROM '@/pad.csv' (NULL_PADDING false)", "has 2 fields, expected 3").await;
}

#[tokio::test]
async fn comments_and_titles_are_skipped() {
    let place = Place::new();
    place.write("c.csv", "# top, of it\nid,v\n1,a\n# mid \"\n2,b#c\n3,d #end\n#x,y\n4,\"#q\"\n");
    place.check("SELECT id, v FROM read_csv('@/c.csv', comment='#')", &["1|a", "2|b", "3|d ", "4|#q"]).await;
    place.check_error("SELECT * FROM '@/c.csv'", "expected 2").await;
    place.check_error("SELECT * FROM read_csv('@/c.csv', comment='##')", "one ASCII character").await;
    place.check_error("SELECT * FROM read_csv('@/c.csv', comment='#', quote='#')", "COMMENT must differ").await;
    place.check_error("SELECT * FROM read_csv('@/c.csv', comment=',')", "COMMENT must differ").await;
    place.run("CREATE TABLE t (id INT, v VARCHAR)").await.expect("a table");
    place.run("COPY t FROM '@/c.csv' (COMMENT '#')").await.expect("rows");
    place.check("SELECT sum(id) FROM t", &["10"]).await;
    for title in
        ["Report of sales\nfor 2024\n\n", "Report, of sales\n", "# by me\n# a, b, c\n", "\u{feff}\"Title, one\"\n"]
    {
        place.write("p.csv", format!("{title}id,v,w\n1,a,x\n2,b,y\n"));
        place.check("SELECT id, v, w FROM '@/p.csv'", &["1|a|x", "2|b|y"]).await;
        place.check("SELECT v FROM read_csv('@/p.csv', delim=',', header=true)", &["a", "b"]).await;
        place.run("CREATE OR REPLACE TABLE u (id INT, v VARCHAR, w VARCHAR)").await.expect("a table");
        place.run("COPY u FROM '@/p.csv'").await.expect("rows");
        place.check("SELECT count(*) FROM u", &["2"]).await;
        let lines = title.lines().count().to_string();
        place.check("SELECT SkipRows, HasHeader FROM sniff_csv('@/p.csv')", &[&format!("{lines}|true")]).await;
    }
    // Comments between the rows are found, where no value may be one.
    place.write("m.csv", "# by me\na;b\n# more\n1;3\n# and more\n6;7\n# end");
    place.check("SELECT a, b FROM '@/m.csv'", &["1|3", "6|7"]).await;
    place.check("SELECT Comment FROM sniff_csv('@/m.csv')", &["#"]).await;
    place.write("n.csv", "a;b\n# more\n1;#3\n6;7\n");
    place.check_error("SELECT * FROM read_csv('@/n.csv', delim=';')", "expected 2").await;
    // What may be a row is not skipped.
    for text in
        ["name\nSmith, John\nDoe, Jane\n", "Report\n1,a,x\n2,b,y\n", "a,b\n1,2,3\n4,5,6\n", "R\nid,v,w\n1,a,x\n2,b\n"]
    {
        place.write("q.csv", text);
        place.check_error("SELECT * FROM '@/q.csv'", "expected ").await;
    }
    place.check_error("SELECT * FROM read_csv('@/p.csv', skip=0)", "expected 1").await;
}

#[tokio::test]
async fn declared_columns_say_what_is_a_record() {
    let place = Place::new();
    place.write("r.csv", "1;2\n1;2;3;4\n1;2;3\nx;2;3\n");
    let rows = |options: &str| {
        format!("SELECT a, b, c FROM read_csv('@/r.csv', columns={{'a': 'INT', 'b': 'INT', 'c': 'INT'}}, {options})")
    };
    place.check(&rows("header=false, ignore_errors=true"), &["1|2|3"]).await;
    place.check(&rows("header=false, ignore_errors=true, null_padding=true"), &["1|2|~", "1|2|3"]).await;
    place.check_error(&rows("header=false, null_padding=true"), "line 2 has 4 fields, expected 3").await;
    place.check_error(&rows("header=false"), "COLUMNS has 3").await;
    let packed = "struct_pack(a := 'INT', \"b'\" := 'VARCHAR', c := 'INT')";
    let query =
        format!("SELECT a, \"b'\" FROM read_csv('@/r.csv', columns={packed}, header=false, ignore_errors=true)");
    place.check(&query, &["1|2"]).await;
}

#[tokio::test]
async fn delimiters_of_several_bytes() {
    let place = Place::new();
    place.write("w.csv", "id||s||n\n1||\"a||b\"||2.5\n2||c|d||\n");
    let rows = |options: &str| format!("SELECT * FROM read_csv('@/w.csv', delim='||'{options}) ORDER BY id");
    place.check(&rows(""), &["1|a||b|2.5", "2|c|d|~"]).await;
    place.check("SELECT Delimiter, Columns[3].type FROM sniff_csv('@/w.csv', delim='||')", &["|||DOUBLE"]).await;
    place.check_error(&rows(", nullstr='x||'"), "NULL must not contain DELIMITER").await;
    place.check_error(&rows(", quote='|'"), "DELIMITER must differ").await;
    place.check_error(&rows(", comment='|'"), "COMMENT must differ").await;
    place.check_error("SELECT * FROM read_csv('@/w.csv', delim='abcde')", "no delimiter").await;
    place.write("u.csv", "a||b\nx\u{1f}y||1\n");
    place.check_error("SELECT * FROM read_csv('@/u.csv', delim='||')", "U+001F").await;
    place.write("e.csv", "id§s\n1§é\nx§y\n2§§\n");
    place
        .check(
            "SELECT id, s FROM read_csv('@/e.csv', delim='§', store_rejects=true, types={'id': 'INT'}, header=true)",
            &["1|é"],
        )
        .await;
    place.check("SELECT csv_line FROM reject_errors ORDER BY line", &["x§y", "2§§"]).await;
    place.run("CREATE TABLE t (id INT, s VARCHAR, n DOUBLE)").await.expect("a table");
    place.run("COPY t FROM '@/w.csv' (DELIM '||')").await.expect("rows");
    place.run("COPY t TO '@/o.csv' (DELIM '||')").await.expect("a file");
    assert_eq!(
        std::fs::read_to_string(place.path("o.csv")).expect("a file"),
        "id||s||n\n1||\"a||b\"||2.5\n2||\"c|d\"||\n"
    );
    place.check("SELECT * FROM read_csv('@/o.csv', delim='||') ORDER BY id", &["1|a||b|2.5", "2|c|d|~"]).await;
    place.check_error("COPY t TO '@/o.csv' (DELIM 'a\"')", "must differ").await;
}

#[tokio::test]
async fn names_become_identifiers() {
    let place = Place::new();
    place.write("n.csv", "Order ID,Über Größe,2nd,select,a-b, trim ,ORDER id,,x__y\n1,2,3,4,5,6,7,8,9\n");
    place
        .check(
            "SELECT order_id, uber_groe, _2nd, _select, ab, \"trim\", order_id_1, column7, x__y FROM \
                 read_csv('@/n.csv', normalize_names=true)",
            &["1|2|3|4|5|6|7|8|9"],
        )
        .await;
    place.check("SELECT \"Order ID\", \"a-b\" FROM '@/n.csv'", &["1|5"]).await;
    place.check_error("SELECT * FROM read_csv('@/n.csv', normalize_names='x')", "neither true nor false").await;
}

#[tokio::test]
async fn wide_files_are_read_in_linear_time_or_refused() {
    let place = Place::new();
    let line = |columns: usize, field: &dyn Fn(usize) -> String| (0..columns).map(field).collect::<Vec<_>>().join(",");
    let names = line(20_000, &|at| format!("c{at}"));
    place.write("wide.csv", format!("{names}\n{}\n", line(20_000, &|at| at.to_string())));
    place.check("SELECT c0, c19999 FROM '@/wide.csv'", &["0|19999"]).await;
    place.write("equal.csv", format!("{}\n{}\n", line(20_000, &|_| "n".into()), line(20_000, &|at| at.to_string())));
    place.check("SELECT n, n_19999 FROM read_csv('@/equal.csv', header=true)", &["0|19999"]).await;
    place.write("texts.csv", format!("{names}\n{}\n", line(20_000, &|_| "x".into())));
    place.check("SELECT count(*) FROM '@/texts.csv'", &["1"]).await;
    place.write("too_wide.csv", format!("{}\n", line(100_001, &|at| format!("c{at}"))));
    place.check_error("SELECT count(*) FROM '@/too_wide.csv'", "100001 fields").await;
}

#[tokio::test]
async fn layouts_are_sniffed() {
    let place = Place::new();
    place.write("s.csv", "a;b\n1;x\n2;y\n");
    place
        .check(
            "SELECT Delimiter, Quote, Escape, NewLineDelimiter, Comment, SkipRows, HasHeader, Columns, DateFormat, \
                 UserArguments FROM sniff_csv('@/s.csv')",
            &[";|\"|\"|\\n|(empty)|0|true|[{'name': a, 'type': BIGINT}, {'name': b, 'type': VARCHAR}]|~|~"],
        )
        .await;
    place
        .check(
            "SELECT Columns[1].type, DateFormat, UserArguments FROM sniff_csv('@/s.csv', all_varchar=true, \
                 dateformat='%d/%m', sample_size=10)",
            &["VARCHAR|%d/%m|all_varchar=true, dateformat='%d/%m', sample_size=10"],
        )
        .await;
    // The prompt reads the file.
    let prompt = place.run("SELECT Prompt FROM sniff_csv('@/s.csv')").await.expect("a prompt").remove(0);
    place.check(prompt.trim_end_matches(';'), &["1|x", "2|y"]).await;
    place.check_error("FROM sniff_csv('@/none.csv')", "no such file").await;
    place.check_error("FROM sniff_csv('@/s.csv', nope=1)", "unknown option nope").await;
}

#[tokio::test]
async fn nulls_in_quotes_and_elsewhere() {
    let place = Place::new();
    place.write("q.csv", "a,b\n1,\"\"\n2,\"NA\"\n3,\n4,NA\n");
    let rows = |options: &str| format!("SELECT b FROM read_csv('@/q.csv'{options}) ORDER BY a");
    place.check(&rows(""), &["", "NA", "~", "NA"]).await;
    place.check(&rows(", nullstr='NA'"), &["", "NA", "", "~"]).await;
    // As DuckDB's default has it.
    place.check(&rows(", nullstr='NA', allow_quoted_nulls=true"), &["", "~", "", "~"]).await;
    place.check(&rows(", allow_quoted_nulls=true"), &["~", "NA", "~", "NA"]).await;
    place.check(&rows(", nullstr=['NA', '']"), &["", "NA", "~", "~"]).await;
    place.check(&rows(", nullstr='NA', force_not_null=['B']"), &["", "NA", "", "NA"]).await;
    place.check_error(&rows(", nullstr=',', delim=','"), "NULL must not contain DELIMITER").await;
}

#[tokio::test]
async fn types_and_names_are_given() {
    let place = Place::new();
    place.write("t.csv", "id,d,t\n01,2024-01-01,x\n");
    place.check("SELECT * FROM read_csv('@/t.csv', types=['INT'])", &["1|2024-01-01|x"]).await;
    place.check("SELECT typeof(d) FROM read_csv('@/t.csv', types=['INT', 'VARCHAR'])", &["VARCHAR"]).await;
    place.check("SELECT id FROM read_csv('@/t.csv', types={'ID': 'INT'})", &["1"]).await;
    place.check("SELECT id, n FROM read_csv('@/t.csv', names=['id', 'n'])", &["01|2024-01-01"]).await;
    place
        .check("SELECT typeof(d) FROM read_csv('@/t.csv', auto_type_candidates=['BIGINT', 'VARCHAR'])", &["VARCHAR"])
        .await;
    place.write("s.csv", "s;u\n\"{\"\"a\"\": 1, \"\"b\"\": \"\"x\"\"}\";0b8e2f5e-1d7a-4c11-9c55-7c2d5f3a9e10\n");
    let declared = "types={'s': 'STRUCT(a INT, b VARCHAR)', 'u': 'UUID'}";
    place.check(&format!("SELECT s.a, s.b, typeof(u) FROM read_csv('@/s.csv', {declared})"), &["1|x|UUID"]).await;
    for (options, part) in [
        ("types=['INT', 'DATE', 'VARCHAR', 'INT']", "3 columns, and there are 4 TYPES"),
        ("types={'nope': 'INT'}", "no column nope"),
        ("types={'id': 'NOPE'}", "unknown type NOPE"),
        ("columns={'id': 'INT'}", "3 columns, and COLUMNS has 1"),
        ("columns={'a': 'INT', 'b': 'DATE', 'c': 'VARCHAR', 'd': 'INT'}", "3 columns, and COLUMNS has 4"),
        ("columns={'a': 'INT', 'b': 'DATE', 'c': 'VARCHAR'}, names=['x']", "leave NAMES and TYPES out"),
        ("names=['a', 'b', 'c', 'd']", "3 columns, and NAMES has 4"),
        ("names=['a', 'a']", "must be distinct"),
        ("names=['a', ' ']", "must be distinct"),
        ("auto_type_candidates=['INT']", "types are found among"),
        ("force_not_null=['nope']", "no column nope"),
        ("header=true, header=false", "given twice"),
        ("delim=',', sep=';'", "same option"),
        ("skip=-1", "whole number"),
        ("sample_size=0", "at least 1"),
        ("delim=''", "no delimiter"),
        ("quote=',', delim=','", "must differ"),
        ("new_line='\\r\\n'", "lines of the file end with \\n"),
        ("new_line='x'", "does not end lines"),
        ("compression='gzip'", "the compression of the file is none"),
        ("nope=1", "unknown option nope"),
        ("sheet='x'", "sheet is an option of spreadsheets"),
    ] {
        place.check_error(&format!("SELECT * FROM read_csv('@/t.csv', {options})"), part).await;
    }
    place
        .check("SELECT count(*) FROM read_csv('@/t.csv', new_line='\\n', compression='none', strict_mode=true)", &["1"])
        .await;
    // The line ends of records count, and not those within values.
    place.write("w.csv", "a,b\r\n\"x\ny\",1\r\n");
    place.check("SELECT b FROM read_csv('@/w.csv', new_line='\\r\\n', header=true)", &["1"]).await;
    place.write("x.csv", "\"x\ny\",1\r\n2,3\r\n");
    place.check("SELECT count(*) FROM read_csv('@/x.csv', new_line='\\r\\n', header=false)", &["2"]).await;
    place.check("SELECT NewLineDelimiter FROM sniff_csv('@/x.csv')", &["\\r\\n"]).await;
    // The last of the declared columns may be empty everywhere.
    place.write("p.csv", "x|false|\n");
    let empty = "columns={'a': 'VARCHAR', 'b': 'BOOLEAN', 'c': 'INT'}, header=false, delim='|'";
    place.check(&format!("SELECT * FROM read_csv('@/p.csv', {empty})"), &["x|false|~"]).await;
    // A file without records has the columns that are declared.
    place.write("e.csv", "");
    place.check("SELECT count(*), sum(b) FROM read_csv('@/e.csv', columns={'a': 'DATE', 'b': 'INT'})", &["0|~"]).await;
    place.check_error("SELECT * FROM read_csv('@/e.csv')", "the file is empty").await;
    // What cannot be opened says why, also where columns are needed.
    place.check_error("SELECT COLUMNS(*) FROM read_csv('@/none.csv')", "no such file").await;
    place
        .check_error(
            "SELECT COLUMNS(*) FROM (SELECT * FROM read_csv('@/t.csv', columns={'id': 'INT'}))",
            "COLUMNS has 1",
        )
        .await;
    place.run("COPY (SELECT 1 AS a) TO '@/x.parquet'").await.expect("a file");
    place.check_error("SELECT * FROM '@/x.parquet' (HEADER true)", "not of parquet").await;
    place.run("CREATE TABLE t (id INT, d DATE, t VARCHAR)").await.expect("a table");
    for (options, part) in [
        ("HEADER true, HEADER false", "given twice"),
        ("DELIM ',', SEP ','", "same option"),
        ("NAMES ('a')", "no option names"),
        ("NOPE 1", "unknown option nope"),
        ("SKIP 'x'", "whole number"),
        ("SHEET 'x'", "spreadsheets"),
        ("FORCE_NOT_NULL (nope)", "no column nope"),
    ] {
        place.check_error(&format!("COPY t FROM '@/t.csv' ({options})"), part).await;
    }
}
