#!/usr/bin/env python3
"""Compares what parameters mean on two servers: PostgreSQL's, which is right, and another one.

    parameters.py RIGHT_PORT PORT [USER] [--all]     --all also lists differences of errors alone

Each statement of a matrix (types of columns, types of parameters, operations) is prepared with the declared type and executed with a
value as text. Compared are the types of parameters and results as described, and the row or the SQLSTATE. Prints the differences and
their number by operation. Needs only Python's standard library.
"""
import collections
import struct
import sys

from traces import Connection, fields

# Types: OID, name in SQL, a value of a column, and one as parameter.
TYPES = [
    (21, "SMALLINT", "7", "7"),
    (23, "INTEGER", "70000", "70000"),
    (20, "BIGINT", "7000000000", "7000000000"),
    (700, "REAL", "1.5", "1.5"),
    (701, "DOUBLE PRECISION", "2.25", "2.25"),
    (1700, "NUMERIC(10, 2)", "12.30", "12.3"),
    (25, "TEXT", "abc", "abc"),
    (1043, "VARCHAR(10)", "abc", "abc"),
    (16, "BOOLEAN", "true", "true"),
    (1082, "DATE", "2024-02-29", "2024-02-29"),
    (1083, "TIME", "10:20:30", "10:20:30"),
    (1114, "TIMESTAMP", "2024-02-29 10:20:30", "2024-02-29 10:20:30"),
    (1184, "TIMESTAMPTZ", "2024-02-29 10:20:30+00", "2024-02-29 10:20:30+00"),
    (1186, "INTERVAL", "1 day", "1 day"),
    (2950, "UUID", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000001"),
    (17, "BYTEA", "\\x6162", "\\x6162"),
    (1007, "INTEGER[]", "{1,2}", "{1,2}"),
    (1009, "TEXT[]", "{a,b}", "{a,b}"),
]
OPERATIONS = {
    "=": "SELECT c = $1 FROM m{n}",
    "<": "SELECT c < $1 FROM m{n}",
    "+": "SELECT c + $1 FROM m{n}",
    "-": "SELECT $1 - c FROM m{n}",
    "coalesce": "SELECT coalesce(c, $1) FROM m{n}",
    "IN": "SELECT c IN ($1, NULL) FROM m{n}",
    "BETWEEN": "SELECT c BETWEEN $1 AND $1 FROM m{n}",
    "CASE": "SELECT CASE WHEN c IS NULL THEN c ELSE $1 END FROM m{n}",
    "INSERT": "INSERT INTO m{n} VALUES ($1) RETURNING c",
    "UPDATE": "UPDATE m{n} SET c = $1 RETURNING c",
}


def asked(connection, sql, oid, value):
    """What a statement with a parameter gives: the described types and the row, or the SQLSTATE."""
    text = value.encode()
    messages = [
        (b"Q", b"begin\0"),
        (b"P", b"\0" + sql.encode() + b"\0" + struct.pack("!hI", 1, oid)),
        (b"D", b"S\0"),
        (b"B", b"\0\0" + struct.pack("!hhi", 0, 1, len(text)) + text + struct.pack("!h", 0)),
        (b"E", b"\0" + struct.pack("!i", 0)),
        (b"S", b""),
        (b"Q", b"rollback\0"),
    ]
    connection.socket.sendall(b"".join(kind + struct.pack("!i", len(body) + 4) + body for kind, body in messages))
    parameters, results, row, error, left = [], [], None, None, 3
    while left:
        kind = connection.bytes(1)
        body = connection.bytes(struct.unpack("!i", connection.bytes(4))[0] - 4)
        left -= kind == b"Z"
        if kind == b"E" and error is None:
            error = fields(body)[b"C"]
        elif kind == b"t":
            parameters = list(struct.unpack(f"!h{(len(body) - 2) // 4}I", body)[1:])
        elif kind == b"T":
            at = 2
            while at < len(body):
                at = body.index(b"\0", at) + 1
                results.append(struct.unpack("!I", body[at + 6:at + 10])[0])
                at += 18
        elif kind == b"D":
            size = struct.unpack("!i", body[2:6])[0]
            row = None if size < 0 else body[6:6 + size].decode()
    return ("error", error) if error else ("row", parameters, results, row)


def main():
    numbers = [int(argument) for argument in sys.argv[1:3]]
    user = next((argument for argument in sys.argv[3:] if not argument.startswith("-")), "ann")
    right, other = [Connection(number, user) for number in numbers]
    for connection in (right, other):
        for n, (_, name, value, _) in enumerate(TYPES):
            for sql in (f"DROP TABLE IF EXISTS m{n}", f"CREATE TABLE m{n} (c {name})", f"INSERT INTO m{n} VALUES ('{value}')"):
                if error := connection.error(sql):
                    sys.exit(f"{sql}: {error}")
    count, different = 0, collections.Counter()
    for operation, form in OPERATIONS.items():
        for n, (_, column, _, own) in enumerate(TYPES):
            for oid, name, _, value in [(0, "unknown", "", own), *TYPES]:
                sql = form.format(n=n)
                answers = [asked(connection, sql, oid, value) for connection in (right, other)]
                count += 1
                if answers[0] == answers[1] or {answer[0] for answer in answers} == {"error"} and "--all" not in sys.argv:
                    continue
                different[operation] += 1
                print(f"{operation}: {column}, {name}\n  right: {answers[0]}\n  got:   {answers[1]}")
    print(f"{sum(different.values())} of {count} are different: {dict(different)}")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
