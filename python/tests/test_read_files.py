"""Spreadsheets, and what is in files as rows."""

import datetime
import zipfile

import freestone
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

STYLES = (
    '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs count="5"><xf numFmtId="0"/>'
    '<xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="21"/><xf numFmtId="46"/></cellXfs></styleSheet>'
)


def spreadsheet(path, *, epoch=1900, first_row=1, **sheets):
    """Writes a file in the form of Excel. A cell is None, a text, a number, a bool, or a pair of a number and its style."""
    main, rel = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"

    def cell(row, column, value):
        place = f'r="{chr(65 + column)}{row + first_row}"'
        if value is None:
            return ""
        if isinstance(value, bool):
            return f'<c {place} t="b"><v>{int(value)}</v></c>'
        if value == "#N/A":
            return f'<c {place} t="e"><v>#N/A</v></c>'
        if isinstance(value, str):
            return f'<c {place} t="inlineStr"><is><t>{value}</t></is></c>'
        number, style = value if isinstance(value, tuple) else (value, 0)
        return f'<c {place} s="{style}"><v>{number}</v></c>'

    def sheet(rows):
        lines = (f'<row r="{at + first_row}">{"".join(cell(at, c, v) for c, v in enumerate(row))}</row>' for at, row in enumerate(rows))
        return f'<worksheet xmlns="{main}"><sheetData>{"".join(lines)}</sheetData></worksheet>'

    numbered = list(enumerate(sheets, 1))
    properties = '<workbookPr date1904="1"/>' if epoch == 1904 else ""
    named = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in numbered)
    targets = "".join(f'<Relationship Id="rId{n}" Type="{rel}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n, _ in numbered)
    targets += f'<Relationship Id="rId99" Type="{rel}/styles" Target="styles.xml"/>'
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        root = f'<Relationship Id="rId1" Type="{rel}/officeDocument" Target="xl/workbook.xml"/>'
        book.writestr("_rels/.rels", f'<Relationships xmlns="{package}/relationships">{root}</Relationships>')
        book.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{rel}">{properties}<sheets>{named}</sheets></workbook>')
        book.writestr("xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{package}/relationships">{targets}</Relationships>')
        book.writestr("xl/styles.xml", STYLES)
        for n, name in numbered:
            book.writestr(f"xl/worksheets/sheet{n}.xml", sheet(sheets[name]))


def test_spreadsheets(db, tmp_path):
    path = tmp_path / "book.xlsx"
    rows = [
        ["name", "n", "share", "day", "at", "ok", "mixed", "clock"],
        ["ada", 1, 0.25, (45351, 1), (45351.5, 2), True, 7, (0.75, 3)],
        ["bob", None, 2, (45352, 1), (45352.25, 2), False, "x", (0.5, 3)],
        [None] * 8,
        ["cid", 3, "#N/A", None, None, None, 1.5, None],
    ]
    spreadsheet(path, First=rows, Second=[[1, 2], [3, 4]])
    relation = db.sql(f"SELECT * FROM '{path}'")
    assert relation.types == ["VARCHAR", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "VARCHAR", "TIME"]
    found = relation.fetchall()
    day = datetime.date(2024, 2, 29)
    assert found[0] == ("ada", 1, 0.25, day, datetime.datetime(2024, 2, 29, 12), True, "7", datetime.time(18))
    assert found[1][1:3] == (None, 2.0) and found[1][6] == "x" and found[2] == (None,) * 8
    assert found[3] == ("cid", 3, None, None, None, None, "1.5", None)
    second = db.sql(f"SELECT * FROM read_xlsx('{path}', sheet => 'second')")
    assert (second.columns, second.fetchall()) == (["column0", "column1"], [(1, 2), (3, 4)])
    assert db.sql(f"SELECT * FROM read_xlsx('{path}', sheet => 'Second', header => true)").columns == ["1", "2"]
    texts = db.sql(f"SELECT n, day, at, ok, clock FROM read_xlsx('{path}', all_varchar => true)").fetchone()
    assert texts == ("1", "2024-02-29", "2024-02-29 12:00:00", "true", "18:00:00")
    db.sql("CREATE TABLE t (name VARCHAR, n INT, share DOUBLE, day DATE, at TIMESTAMP, ok BOOLEAN, mixed VARCHAR, clock TIME)")
    assert db.sql(f"COPY t FROM '{path}'").rowcount == 4
    assert db.sql("SELECT sum(n)::INT, max(day) FROM t").fetchall() == [(4, datetime.date(2024, 3, 1))]
    with pytest.raises(freestone.Error, match="there is no sheet third; the sheets are First, Second"):
        db.sql(f"SELECT * FROM read_xlsx('{path}', sheet => 'third')")
    with pytest.raises(freestone.NotSupportedError, match="spreadsheets are read, not written"):
        db.sql(f"COPY t TO '{tmp_path}/other.xlsx'")


@pytest.mark.parametrize("epoch", [1900, 1904])
def test_days_of_both_epochs(db, tmp_path, epoch):
    path = tmp_path / "book.xlsx"
    second = 1 / 86_400
    serials = [1, 58, 61, 45_000, 45_000.75, 2_000_000 + 12 * 3600 * second, 2_957_003.999_99]
    spreadsheet(path, epoch=epoch, First=[["day"], *([(serial, 2)] for serial in serials)])
    # Excel's first day is 1900-01-01, and its calendar has a 29th of February in 1900, which is day 60.
    start = datetime.datetime(1904, 1, 1) if epoch == 1904 else datetime.datetime(1899, 12, 31)
    expected = []
    for serial in serials:
        day = serial - 1 if epoch == 1900 and serial > 60 else serial
        moment = start + datetime.timedelta(days=int(day)) + datetime.timedelta(milliseconds=round((day % 1) * 86_400_000))
        expected.append(moment)
    found = [row[0] for row in db.sql(f"SELECT * FROM '{path}'").fetchall()]
    assert all(abs(mine - other) < datetime.timedelta(milliseconds=1) for mine, other in zip(found, expected, strict=True)), found
    spreadsheet(path, epoch=epoch, First=[["day"], [(45_000, 1)], [None], [(61, 1)]])
    days = [datetime.date(2023, 3, 15), None, datetime.date(1900, 3, 1)]
    shift = datetime.timedelta(days=1462 if epoch == 1904 else 0)
    assert [row[0] for row in db.sql(f"SELECT * FROM '{path}'").fetchall()] == [day and day + shift for day in days]


def test_times_of_spreadsheets(db, tmp_path):
    path = tmp_path / "book.xlsx"
    spreadsheet(path, First=[["at", "long"], [(0.999_999_999, 3), (1.25, 4)], [(0, 3), (0.5, 4)], [(0.5, 3), (-0.25, 4)]])
    relation = db.sql(f"SELECT * FROM '{path}'")
    assert relation.types == ["TIME", "INTERVAL"]
    rows = relation.fetchall()
    assert rows[0][0] >= datetime.time(23, 59, 59, 999) and rows[1][0] == datetime.time(0) and rows[2][0] == datetime.time(12)
    assert [row[1] for row in rows] == [datetime.timedelta(hours=30), datetime.timedelta(hours=12), datetime.timedelta(hours=-6)]


def test_skip_counts_rows_of_the_sheet(db, tmp_path):
    path = tmp_path / "book.xlsx"
    spreadsheet(path, first_row=4, First=[["a", "b"], [1, 2], [3, 4]])
    for skip in (0, 3):
        assert db.sql(f"SELECT a, b FROM read_xlsx('{path}', skip => {skip})").fetchall() == [(1, 2), (3, 4)]
    assert db.sql(f"SELECT * FROM read_xlsx('{path}', skip => 4)").fetchall() == [(1, 2), (3, 4)]
    assert db.sql(f"SELECT * FROM read_xlsx('{path}', skip => 5, header => false)").fetchall() == [(3, 4)]


def test_damaged_spreadsheets_are_errors(db, tmp_path):
    path = tmp_path / "book.xlsx"
    spreadsheet(path, First=[["a", "b"], [1, 2]])
    whole = path.read_bytes()
    for end in [0, 10, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:end])
        with pytest.raises(freestone.Error, match="book.xlsx"):
            db.sql(f"SELECT * FROM '{path}'").fetchall()
    spreadsheet(path, First=[])
    with pytest.raises(freestone.Error, match="the sheet is empty"):
        db.sql(f"SELECT * FROM '{path}'").fetchall()


def test_files_as_rows(db, tmp_path):
    (tmp_path / "a.txt").write_text("one")
    path = tmp_path / "x.parquet"
    db.sql(f"COPY (SELECT value AS a, 'x' || value AS b FROM range(10)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 4)")
    schema = db.sql(f"SELECT name, type, repetition_type, num_children FROM parquet_schema('{path}')").fetchall()
    assert schema[1:] == [("a", "INT64", "REQUIRED", None), ("b", "BYTE_ARRAY", "REQUIRED", None)] and schema[0][3] == 2
    chunks = db.sql(
        f"SELECT row_group_id, row_group_num_rows, path_in_schema, num_values, stats_min, stats_max, stats_null_count "
        f"FROM parquet_metadata('{path}') WHERE path_in_schema = 'a' ORDER BY 1"
    ).fetchall()
    assert chunks == [(0, 4, "a", 4, "0", "3", 0), (1, 4, "a", 4, "4", "7", 0), (2, 2, "a", 2, "8", "9", 0)]
    with pytest.raises(freestone.Error, match="a.txt.*not a Parquet file"):
        db.sql(f"SELECT * FROM parquet_metadata('{tmp_path}/a.txt')")


def test_checksums_of_pages_are_verified(db, tmp_path):
    path = tmp_path / "x.parquet"
    table = pa.table({"a": pa.array(range(1000), pa.int64())})
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    assert db.sql(f"SELECT sum(a) FROM '{path}'").fetchall() == [(499500,)]
    data = bytearray(path.read_bytes())
    data[data.index((500).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)
    with pytest.raises(freestone.Error, match="x.parquet"):
        db.sql(f"SELECT sum(a) FROM '{path}'").fetchall()


def test_encodings_are_those_of_python(db, tmp_path):
    path = tmp_path / "x.csv"
    text = "name,n\ncafé £,1\nGröße,2\n"
    for encoding in ["utf-8", "utf-8-sig", "latin-1", "iso-8859-15", "windows-1252", "cp1252", "utf-16", "utf-16-le", "utf-16-be", "mac-roman"]:
        path.write_bytes(text.encode(encoding))
        found = db.sql(f"SELECT * FROM read_csv('{path}', encoding => '{encoding}')").fetchall()
        assert found == [("café £", 1), ("Größe", 2)], encoding
    for encoding, words in [("shift_jis", "テスト"), ("gbk", "测试"), ("big5", "測試"), ("euc-kr", "시험"), ("koi8-r", "тест"), ("windows-1251", "тест")]:
        path.write_bytes(f"name\n{words}\n".encode(encoding))
        assert db.sql(f"SELECT * FROM read_csv('{path}', encoding => '{encoding}', header => true)").fetchall() == [(words,)]
    path.write_bytes("a\né\n".encode("latin-1"))
    with pytest.raises(freestone.Error, match="UTF-8") as error:
        db.sql(f"SELECT * FROM '{path}'").fetchall()
    assert "ENCODING" in error.value.hint
    with pytest.raises(freestone.Error, match="ENCODING|encoding"):
        db.sql(f"SELECT * FROM read_csv('{path}', encoding => 'nope')")
