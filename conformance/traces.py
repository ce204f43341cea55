#!/usr/bin/env python3
"""Compares a server with the traces of PostgreSQL's protocol in crates/freestone-server/tests/suite/traces.txt.

    traces.py PORT [USER] [--write]     --write replaces the answers by those of this server

Lines that begin with `>` are messages, and the lines behind them are the server's answer:

    > Q sql            a simple query                     C tag      complete
    > P name sql       Parse                              D values   a row, as text
    > B portal name value …   Bind, with text values      E code     an error
    > E portal rows    Execute                            N code     a notice
    > D kind name, > C kind name   Describe, Close        Z state    ready
    > S, > H           Sync, Flush                        others by their letters
    > ! kind hex       a message with this body           closed     the end of the connection
    > ? kind hex       the same, which is skipped or ends the connection

`-` is the empty name. Messages in a row are sent at once. `#` begins a section, which has a connection of its own.
"""
import os
import socket
import struct
import sys

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../crates/freestone-server/tests/suite/traces.txt")


def text(word):
    return (b"" if word == "-" else word.encode()) + b"\0"


def message(line):
    kind, _, rest = line.partition(" ")
    if kind in "!?":
        kind, _, rest = rest.partition(" ")
        body = bytes.fromhex(rest)
    elif kind == "Q":
        body = rest.encode() + b"\0"
    elif kind == "P":
        name, _, sql = rest.partition(" ")
        body = text(name) + sql.encode() + b"\0" + struct.pack("!H", 0)
    elif kind == "B":
        portal, name, *values = rest.split(" ")
        values = b"".join(struct.pack("!i", len(value)) + value.encode() for value in values)
        body = text(portal) + text(name) + struct.pack("!HH", 0, len(rest.split(" ")) - 2) + values + struct.pack("!H", 0)
    elif kind == "E":
        portal, rows = rest.split(" ")
        body = text(portal) + struct.pack("!i", int(rows))
    elif kind in "DC":
        of, name = rest.split(" ")
        body = of.encode() + text(name)
    else:
        body = b""
    return kind.encode() + struct.pack("!i", len(body) + 4) + body


def fields(body):
    return {part[:1]: part[1:].decode() for part in body.split(b"\0") if part}


def answer(kind, body):
    if kind in "C":
        return "C " + body[:-1].decode()
    if kind in "EN":
        return f"{kind} {fields(body)[b'C']}"
    if kind == "Z":
        return "Z " + body.decode()
    if kind == "D":
        values, at = [], 2
        for _ in range(struct.unpack("!H", body[:2])[0]):
            size = struct.unpack("!i", body[at:at + 4])[0]
            values.append("NULL" if size < 0 else body[at + 4:at + 4 + size].decode())
            at += 4 + max(size, 0)
        return "D " + ",".join(values)
    return kind


class Connection:
    def __init__(self, port, user):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        body = struct.pack("!i", 196608) + b"user\0" + user.encode() + b"\0database\0postgres\0\0"
        self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
        self.until("Z", 1)

    def bytes(self, count):
        found = b""
        while len(found) < count:
            part = self.socket.recv(count - len(found))
            if not part:
                raise EOFError
            found += part
        return found

    def until(self, last, count):
        answers = []
        while count:
            try:
                kind = self.bytes(1).decode()
            except (EOFError, ConnectionResetError):
                return answers + ["closed"]
            body = self.bytes(struct.unpack("!i", self.bytes(4))[0] - 4)
            count -= kind == last
            if kind not in "SKT":
                answers.append(answer(kind, body))
        return answers

    def ask(self, lines):
        self.socket.sendall(b"".join(message(line) for line in lines))
        return self.until("Z", sum(line.removeprefix("! ")[:1] in "QS" for line in lines) or any("?" == line[:1] for line in lines))


    def error(self, sql):
        """The fields of the first error of a simple query; nothing if it has none."""
        self.socket.sendall(message("Q " + sql))
        found = {}
        while True:
            kind = self.bytes(1)
            body = self.bytes(struct.unpack("!i", self.bytes(4))[0] - 4)
            if kind == b"E" and not found:
                found = {letter.decode(): value for letter, value in fields(body).items()}
            if kind == b"Z":
                return found


def main():
    port, user = int(sys.argv[1]), next((a for a in sys.argv[2:] if not a.startswith("-")), "ann")
    Connection(port, user).ask(["Q drop table if exists t, u, v, w"])
    lines = open(PATH).read().splitlines()
    new, sent, different, connection, title = [], [], 0, None, ""
    expected = []

    def settle():
        nonlocal different
        if sent:
            got = connection.ask(sent)
            if got != expected:
                different += 1
                print(f"{title}: {' | '.join(sent)}\n  right: {expected}\n  got:   {got}")
            new.extend(got)
            sent.clear()
            expected.clear()

    for line in lines + ["#"]:
        if line.startswith(">"):
            if expected:
                settle()
            new.append(line)
            sent.append(line[2:])
        elif line.startswith("#"):
            settle()
            title = line
            new.append(line)
            connection = Connection(port, user)
        elif line:
            expected.append(line)
            if not sent:
                exit("an answer without a question: " + line)
        else:
            settle()
            new.append(line)
    if "--write" in sys.argv:
        open(PATH, "w").write("\n".join(new[:-1]) + "\n")
    print(f"{different} different")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
