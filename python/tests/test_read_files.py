"""Spreadsheets, and what is in files as rows."""

import datetime
import zipfile

import freestone
import pytest

STYLES = (
    '<styleSheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><cellXfs count="4"><xf numFmtId="0"/>'
    '<xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="21"/></cellXfs></styleSheet>'
)


def spreadsheet(path, **sheets):
    """Writes a file in the form of Excel. A cell is None, a text, a number, a bool, or a pair of a number and its style."""
    main, rel = "http://schemas.openxmlformats.org/spreadsheetml/2006/main", "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"

    def cell(row, column, value):
        place = f'r="{chr(65 + column)}{row + 1}"'
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
        lines = (f'<row r="{at + 1}">{"".join(cell(at, c, v) for c, v in enumerate(row))}</row>' for at, row in enumerate(rows))
        return f'<worksheet xmlns="{main}"><sheetData>{"".join(lines)}</sheetData></worksheet>'

    numbered = list(enumerate(sheets, 1))
    named = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="rId{n}"/>' for n, name in numbered)
    targets = "".join(f'<Relationship Id="rId{n}" Type="{rel}/worksheet" Target="worksheets/sheet{n}.xml"/>' for n, _ in numbered)
    targets += f'<Relationship Id="rId99" Type="{rel}/styles" Target="styles.xml"/>'
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("[Content_Types].xml", f'<Types xmlns="{package}/content-types"/>')
        root = f'<Relationship Id="rId1" Type="{rel}/officeDocument" Target="xl/workbook.xml"/>'
        book.writestr("_rels/.rels", f'<Relationships xmlns="{package}/relationships">{root}</Relationships>')
        book.writestr("xl/workbook.xml", f'<workbook xmlns="{main}" xmlns:r="{rel}"><sheets>{named}</sheets></workbook>')
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
    assert (second.columns, second.fetchall()) == (["column1", "column2"], [(1, 2), (3, 4)])
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
