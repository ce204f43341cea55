"""The shell in a terminal: what a user types, and what the screen shows."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import pytest
from conftest import TARGET

BINARY = TARGET / "release" / "freestone"


class Terminal:
    """A shell in a terminal of 80 columns, without colours and cursor movements."""

    def __init__(self, folder, *arguments):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
        environment = {**os.environ, "TERM": "dumb", "XDG_STATE_HOME": str(folder / "state"), "PAGER": "cat -n"}
        self.process = subprocess.Popen(
            [BINARY, *arguments], stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, close_fds=True
        )
        os.close(slave)
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def until(self, prompt, seconds=60):
        """What the screen shows up to a prompt."""
        end = time.monotonic() + seconds
        while not self.text.endswith(prompt):
            if not select.select([self.master], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"no {prompt!r} behind {self.text!r}")
            try:
                read = os.read(self.master, 65536)
            except OSError:
                read = b""
            if not read:
                raise EOFError(self.text)
            self.text = (self.text + self.decoder.decode(read)).replace("\r\n", "\n")
        shown, self.text = self.text, ""
        return shown

    def type(self, line, prompt="shop> "):
        """What the screen shows after a line was typed, without the line and the next prompt."""
        os.write(self.master, line.encode() + b"\n")
        shown = self.until(prompt)
        return shown.removeprefix(line + "\n").removesuffix(prompt)

    def leave(self, line):
        os.write(self.master, line.encode() + b"\n")
        with pytest.raises(EOFError):
            self.until("never")
        return self.process.wait(60)


@pytest.fixture
def shop(tmp_path):
    terminal = Terminal(tmp_path, "shop")
    assert terminal.until("shop> ").startswith("freestone 0.1.0, database shop; \\? for help\n")
    yield terminal
    terminal.process.kill()
    terminal.process.wait()
    os.close(terminal.master)


def test_statements_of_several_lines_and_commands_between_them(shop):
    assert shop.type("CREATE TABLE t AS SELECT value AS n, value % 3 AS g FROM range(1000);") == "CREATE TABLE 1000\n"
    assert shop.type("SELECT count(*) AS rows,", "   -> ") == ""
    assert shop.type("\\timing on", "   -> ") == "timing on\n"
    assert shop.type("\\p", "   -> ") == "SELECT count(*) AS rows,\n"
    assert shop.type("'it''s", "   '> ") == ""
    shown = shop.type("' AS text FROM t;")
    assert "│ 1000 │ it's↵│" in shown and "1 row\ntime: " in shown
    shop.type("\\timing off")
    assert shop.type("SELECT 1", "   -> ") == ""
    assert shop.type("\\r") == "the statement is discarded\n"
    assert shop.type("help").startswith("Statements end with `;`")
    assert shop.type("INSERT INTO t SELECT * FROM t;") == "INSERT 1000\n"
    assert shop.type("BEGIN;", "shop*> ") == "BEGIN\n"
    assert shop.type("ROLLBACK;") == "ROLLBACK\n"
    assert shop.leave("exit") == 0


def test_wide_and_long_results(shop):
    columns = ", ".join(f"{n} AS column_number_{n}" for n in range(12))
    shown = shop.type(f"CREATE TABLE w AS SELECT {columns} FROM range(100);")
    shown = shop.type("SELECT * FROM w;")
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "column_number_0" in shown and "│ … │" in shown and "column_number_11" in shown
    assert re.search(r"100 rows \(40 shown\), 12 columns \(\d shown\)\n$", shown)
    assert shop.type("\\x") == "expanded on\n"
    assert "column_number_7  │ 7\n" in shop.type("SELECT * FROM w LIMIT 1;")
    assert shop.type("\\x off") == "expanded off\n"
    shop.type("\\maxrows all")
    shop.type("\\pager on")
    shown = shop.type("SELECT column_number_0 AS a FROM w;")
    assert re.search(r"^ *104\t└───┘\n *105\t100 rows\n$", shown, re.M), "numbered by the pager"
    assert shop.type("SELECT 1 AS a;") == "┌───┐\n│ a │\n├───┤\n│ 1 │\n└───┘\n1 row\n"
    assert shop.leave("\\q") == 0


def test_plans_fit_the_terminal(shop):
    shop.type("CREATE TABLE t AS SELECT value AS n, value % 3 AS g FROM range(1000);")
    shown = shop.type("EXPLAIN ANALYZE SELECT g, count(*), sum(n) FROM t WHERE n < 500 GROUP BY g ORDER BY g;")
    assert all(len(line) <= 80 for line in shown.splitlines()), shown
    assert "metrics=" not in shown and re.search(r"rows_scanned=1.00 K|rows_scanned=500", shown), shown
    assert "┌" not in shown


def test_an_unused_database_is_not_kept(tmp_path):
    terminal = Terminal(tmp_path, "shpo")
    terminal.until("shpo> ")
    assert "no table or view t" in terminal.type("SELECT * FROM t;", "shpo> ")
    assert terminal.leave("quit;") == 0
    os.close(terminal.master)
    assert not (tmp_path / "shpo").exists()
