"""The shell in a terminal: what a user types, and what the screen shows."""

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading
import time

import pytest
from conftest import TARGET, serving

BINARY = TARGET / "release" / "freestone"

# Cursor movements and switches of the terminal.
SEQUENCES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A shell in a terminal of 80 columns. One called dumb has no cursor movements, and its lines cannot be edited."""

    def __init__(self, folder, *arguments, term="dumb", **variables):
        self.master, slave = pty.openpty()
        self.resize(80)
        variables = {"TERM": term, "XDG_STATE_HOME": str(folder / "state"), "PAGER": "cat -n", **variables}
        self.process = subprocess.Popen(
            [BINARY, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=os.environ | variables,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self.text = ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()

    def resize(self, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))

    def send(self, text):
        """Writes a text to the terminal at once, without waiting for the shell to read it."""
        text = text.encode()
        while text:
            text = text[os.write(self.master, text[:1000]) :]

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

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
            self.text = SEQUENCES.sub("", self.text + self.decoder.decode(read)).replace("\r", "")
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
    terminal.close()


@pytest.fixture(params=["xterm", "dumb"])
def term(request):
    return request.param


@contextlib.contextmanager
def shell(folder, *arguments, prompt="memory> ", **variables):
    """A terminal with a shell that waits at its prompt."""
    terminal = Terminal(folder, *arguments, **variables)
    try:
        terminal.until(prompt)
        yield terminal
    finally:
        terminal.close()


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


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_all_lines_of_a_paste_arrive(tmp_path, term, end):
    lines = ["SELECT 10 + 1 AS a;", "SELECT", "\t20 + 2", "AS\tb;", "SELECT 30 + 3 AS c; SELECT 'unfinished"]
    with shell(tmp_path, term=term) as terminal:
        terminal.send(end.join(lines) + end)
        shown = terminal.until("     '> ")
        # The terminal makes two ends of a Windows line.
        time.sleep(0.5 if end == "\r\n" else 0)
        assert [shown.count(f"│ {value} │") for value in (11, 22, 33)] == [1, 1, 0], shown
        shown = terminal.type("' AS d;", "memory> ")
        assert "│ 33 │" in shown and "│ unfinished↵│" in shown and "error" not in shown, shown


def test_a_paste_waits_for_a_running_statement(tmp_path):
    rows = ", ".join(f"({n}, 'value number {n}')" for n in range(1000))
    statements = [f"INSERT INTO t VALUES ({n}, '');" for n in range(1000, 1050)]
    paste = ["CREATE TABLE t (n INT, v VARCHAR);", *statements, f"INSERT INTO t VALUES {rows};", "SELECT sum(n) AS sum FROM t;"]
    with shell(tmp_path, term="xterm") as terminal:
        sender = threading.Thread(target=terminal.send, args=["\r".join(paste) + "\r"])
        sender.start()
        assert "│ 550725 │" in terminal.until("1 row\nmemory> ")
        sender.join()


def test_ctrl_c_discards_what_was_pasted_behind_a_statement(tmp_path):
    with shell(tmp_path, term="xterm") as terminal:
        endless = "SELECT count(*) FROM range(1000000000) AS a JOIN range(1000000000) AS b ON a.value % 7 = b.value % 11;"
        terminal.send(f"SELECT 1 AS first;\r{endless}\rCREATE TABLE wrong (a INT);\r")
        terminal.until("% 11;\n")
        time.sleep(0.5)
        terminal.send("\x03")
        assert "error: cancelled" in terminal.until("memory> ")
        assert "wrong" not in terminal.type("SHOW TABLES;\r", "memory> ").replace("SHOW TABLES;", "")
        terminal.send("SELECT 'begun\r")
        terminal.until("     '> ")
        terminal.send("\x03")
        terminal.until("memory> ")
        assert "│ 2 │" in terminal.type("SELECT 2 AS a;", "memory> ")


def test_bracketed_pastes_run_statement_by_statement(tmp_path):
    with shell(tmp_path, term="xterm") as terminal:
        terminal.send("\x1b[200~SELECT 1 AS a;\r\nnonsense;\r\n.timing on\r\nSELECT 2 AS b;\r\nSELECT\t3\x1b[201~\r")
        shown = terminal.until("     -> ")
        assert "│ 1 │" in shown and "syntax error" in shown and "timing on" in shown and "│ 2 │" in shown, shown
        assert "│ 3 │" in terminal.type("AS c;", "memory> ")


def test_a_plain_terminal_gets_no_escape_sequences(tmp_path):
    terminal = Terminal(tmp_path, term="dumb")
    terminal.send("SELECT 1 AS a;\n.help\nSELECT count(*) FROM range(300000000) AS t WHERE value % 3 = 1;\nexit\n")
    shown = b""
    with contextlib.suppress(OSError):
        while read := os.read(terminal.master, 65536):
            shown += read
    assert terminal.process.wait(60) == 0
    os.close(terminal.master)
    assert b"\x1b" not in shown and b"100000000" in shown, shown


def test_a_table_has_the_width_that_the_window_has_now(tmp_path, term):
    statement = "SELECT repeat('wide ', 30) AS a;"
    with shell(tmp_path, term=term) as terminal:
        for columns in (80, 40, 120):
            terminal.resize(columns)
            time.sleep(0.2)
            lines = terminal.type(statement, "memory> ").splitlines()
            assert max(len(line) for line in lines if line.startswith("│")) == columns, lines


def test_another_database_in_the_same_shell(shop, tmp_path):
    shop.type("CREATE TABLE t AS SELECT 1 AS a;")
    assert shop.type(".open 'other shop'", "other shop> ") == "database other shop\n"
    assert "no table or view t" in shop.type("SELECT * FROM t;", "other shop> ")
    assert shop.type("CREATE TABLE u AS SELECT 2 AS a;", "other shop> ") == "CREATE TABLE 1\n"
    assert shop.type("BEGIN;", "other shop*> ") == "BEGIN\n"
    assert shop.type("\\c shop") == "the open transaction is rolled back\ndatabase shop\n"
    assert "│ 1 │" in shop.type("SELECT * FROM t;")
    shown = shop.type("\\c missing/folder")
    assert shown.startswith("error: there is no database missing/folder") and "hint: " in shown
    assert shop.type("\\c") == "database shop\n"
    shop.type("\\c mistyped", "mistyped> ")
    assert shop.type(".open :memory:", "memory> ").startswith("note: nothing was stored")
    assert shop.leave("\\q") == 0
    assert (tmp_path / "other shop").is_dir() and not (tmp_path / "mistyped").exists()


def test_commands_of_the_system(shop):
    assert shop.type("\\! echo one two") == "one two\n"
    assert shop.type("\\!exit 3") == "exit status: 3\n"
    assert shop.leave("\\q") == 0


def test_the_last_statement_is_edited_and_runs(tmp_path, term):
    script = tmp_path / "edit it.sql"
    script.write_text("SELECT 1 AS a;\nSELECT 1 AS b;\n")
    with shell(tmp_path, term=term, VISUAL="sed -i s/1/2/", EDITOR="false") as terminal:
        terminal.type("SELECT 1 AS a;", "memory> ")
        assert terminal.type("\\e", "memory> ").endswith("SELECT 2 AS a;\n┌───┐\n│ a │\n├───┤\n│ 2 │\n└───┘\n1 row\n")
        assert "nothing was changed, and nothing runs\n" in terminal.type(".edit", "memory> ")
        terminal.type("SELECT 1", "     -> ")
        assert "SELECT 2\n" in terminal.type("\\e", "     -> ")
        assert "│ 2 │" in terminal.type(" AS c;", "memory> ")
        assert terminal.type("\\e 'edit it.sql'", "memory> ").count("│ 2 │") == 2
    with shell(tmp_path, term=term, VISUAL="", EDITOR="false") as terminal:
        assert "error: the editor `false` ended with exit status: 1\nhint: " in terminal.type("\\e", "memory> ")


def test_files_of_the_client(tmp_path):
    (tmp_path / "some rows.csv").write_bytes("\ufeffid,city\r\n1,Oslo\r\n2,\"Rome, Italy\"\r\n".encode())
    (tmp_path / "more.txt").write_text("4;\n3;Bern\n")
    with serving(str(tmp_path / "served"), "--threads", "2") as address:
        for database in (":memory:", address):
            command = [BINARY, database, "-f", "-", "--format", "csv"]
            script = """
                .import 'some rows.csv' cities
                .import some\\ rows.csv cities
                \\copy cities (id, city) from 'more.txt' with (FORMAT csv, HEADER false, DELIMITER ';')
                \\copy (SELECT * FROM cities WHERE id > 1 ORDER BY id) to 'out.csv' csv header delimiter ';'
                \\copy cities to 'out.parquet'
                SELECT id, city FROM cities ORDER BY id;
                DROP TABLE cities;
                .import more.txt "more cities" (HEADER false, DELIMITER ';')
                SELECT * FROM "more cities";
                DROP TABLE "more cities";
            """
            script = "\n".join(line.strip() for line in script.splitlines())
            done = subprocess.run(command, input=script, capture_output=True, text=True, cwd=tmp_path)
            assert (done.returncode, done.stdout) == (
                0,
                'id,city\n1,Oslo\n1,Oslo\n2,"Rome, Italy"\n2,"Rome, Italy"\n3,Bern\n4,\ncolumn0,column1\n4,\n3,Bern\n',
            ), done.stderr
            assert (tmp_path / "out.csv").read_text() == "id;city\n2;Rome, Italy\n2;Rome, Italy\n3;Bern\n4;\n"
            rows = subprocess.run([BINARY, "-c", "SELECT count(*) AS n FROM 'out.parquet'", "-o", "n.ndjson"], cwd=tmp_path)
            assert (rows.returncode, (tmp_path / "n.ndjson").read_text()) == (0, '{"n":6}\n')
            for line, message in [
                ("\\copy missing from 'more.txt'", "error: stdin:1: "),
                ("\\copy t", "error: stdin:1: \\copy needs `from` or `to` and a file\nhint: \\copy TABLE"),
                (".import more.txt", "error: stdin:1: .import needs the name of a table for more.txt\nhint: .import FILE"),
                (".import missing.csv t", "missing.csv"),
                ("\\e", "error: stdin:1: \\e is a command of the interactive shell\n"),
            ]:
                done = subprocess.run(command, input=line, capture_output=True, text=True, cwd=tmp_path)
                assert done.returncode == 1 and message in done.stderr, (line, done.stderr)


def test_file_names_complete(tmp_path):
    (tmp_path / "some rows.csv").write_text("a\n1\n")
    (tmp_path / "daily.csv").write_text("a\n2\n")
    (tmp_path / "folder").mkdir()
    with shell(tmp_path, term="xterm") as terminal:
        for typed, completed in [
            (".import dai", ".import daily.csv"),
            (".import som", ".import some\\ rows.csv"),
            ("\\copy t from 'som", "\\copy t from 'some rows.csv'"),
            ("\\copy t to dai", "\\copy t to daily.csv"),
            ("SELECT * FROM 'som", "SELECT * FROM 'some rows.csv'"),
            ("COPY t FROM 'dai", "COPY t FROM 'daily.csv'"),
            (".open fol", ".open folder/"),
            ("\\c fol", "\\c folder/"),
            ("\\i dai", "\\i daily.csv"),
            ("\\e dai", "\\e daily.csv"),
            ("\\o dai", "\\o daily.csv"),
            (".impo", ".import"),
        ]:
            terminal.send(typed)
            terminal.until(typed)
            time.sleep(0.05)
            terminal.send("\t")
            terminal.until(completed.removesuffix("'"))
            terminal.send("\x03")
            terminal.until("memory> ")


def test_the_name_of_the_output_file_says_its_format(tmp_path):
    def output(name, *arguments):
        subprocess.run([BINARY, "-c", "SELECT 1 AS a, 'x' AS b", "-o", name, *arguments], cwd=tmp_path, check=True)
        return (tmp_path / name).read_bytes()

    assert output("x.csv") == b"a,b\n1,x\n"
    assert output("x.CSV", "--format", "ndjson") == output("x.jsonl") == b'{"a":1,"b":"x"}\n'
    assert output("x.md").startswith(b"| a | b |") and output("x.json").startswith(b"[")
    assert output("x.parquet").startswith(b"PAR1") and output("x.txt") == output("x.out") and "┌".encode() in output("x.txt")
    with shell(tmp_path, term="xterm") as terminal:
        for line in ("\\o y.csv", "SELECT 1 AS a;", "\\mode ndjson", "SELECT 2 AS a;", "\\mode auto", "\\o"):
            assert "│" not in terminal.type(line, "memory> ")
        assert (tmp_path / "y.csv").read_text() == 'a\n1\n{"a":2}\n'
        assert "│ 3 │" in terminal.type("SELECT 3 AS a;", "memory> ")


def test_a_pager_shows_all_rows(shop):
    assert shop.type("\\pager on") == "pager on\n"
    shown = shop.type("SELECT value AS a FROM range(100);")
    assert re.search(r"^ *105\t100 rows\n$", shown, re.M) and "⋮" not in shown, shown
    assert shop.type("\\pager off") == "pager off\n"
    assert "100 rows (40 shown)" in shop.type("SELECT value AS a FROM range(100);")


def test_windows_files(tmp_path):
    lines = ["\ufeff.mode csv", "SELECT 1 AS a", "; -- one", "\ufeffSELECT '\ufeffx' AS b;", "\\d missing"]
    (tmp_path / "windows.sql").write_bytes("\r\n".join(lines).encode())
    for arguments in (["-f", "windows.sql"], ["-c", "\\i windows.sql"], []):
        with open(tmp_path / "windows.sql", "rb") as script:
            done = subprocess.run([BINARY, *arguments], stdin=script, capture_output=True, cwd=tmp_path)
        assert done.stdout == "a\n1\nb\n\ufeffx\n".encode(), done
        assert b":5: " in done.stderr and b"missing" in done.stderr
    script = "SELECT 1;".encode("utf-16")
    done = subprocess.run([BINARY], input=script, capture_output=True, cwd=tmp_path)
    assert done.returncode == 1 and b"hint: the text is UTF-16: save it as UTF-8" in done.stderr
