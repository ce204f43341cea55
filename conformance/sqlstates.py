#!/usr/bin/env python3
"""Compares the errors of a server with those of PostgreSQL in crates/freestone-server/tests/suite/sqlstates.txt.

    sqlstates.py PORT [USER] [--write]     --write replaces PostgreSQL's errors by those of this server

Lines that begin with `+` are statements that succeed, those with `>` are wrong, and the line behind is the error: its SQLSTATE, and
the fields `P` (position), `s` (schema), `t` (table), `c` (column), `n` (constraint), of violated keys also `D` (detail). A line
that begins with `!` is Freestone's error where it is another one, and says why. `#` begins a comment.
"""
import os
import sys

from traces import Connection

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/freestone-server/tests/suite/sqlstates.txt")


def described(error):
    """The error as a line of the file."""
    if not error:
        return "none"
    letters = "Pstcn" + ("D" if error["C"] in ("23503", "23505") else "")
    return " | ".join([error["C"]] + [f"{letter}={error[letter]}" for letter in letters if letter in error])


def main():
    port, user = int(sys.argv[1]), next((a for a in sys.argv[2:] if not a.startswith("-")), "ann")
    connection = Connection(port, user)
    different, new, sql = 0, [], None
    for line in open(PATH).read().splitlines() + ["#"]:
        if line.startswith((">", "+", "#", "!")) or not line:
            if sql is not None and not line.startswith("!"):
                sql = None
        if line.startswith("+"):
            if error := connection.error(line[2:]):
                sys.exit(f"{line}: {error}")
        if line.startswith(">"):
            sql = line[2:]
            got = described(connection.error(sql))
            new += [line, got]
            continue
        if sql is not None and not line.startswith("!"):
            if line != got:
                different += 1
                print(f"{sql}\n  right: {line}\n  got:   {got}")
            continue
        new.append(line)
    if "--write" in sys.argv:
        open(PATH, "w").write("\n".join(new[:-1]) + "\n")
    print(f"{different} different")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
