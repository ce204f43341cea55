"""The clients that run the cases. Each connects, executes statements, and returns rows in the notation of the cases.

An error is a `Failed` with the SQLSTATE that the client reports. `cannot` names the cases that a client does not support
for reasons that are not the server's. These cases are skipped, and the reason is printed.
"""

import atexit
import base64
import contextlib
import importlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import threading

import values

HERE = pathlib.Path(__file__).parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path.home() / ".cache/freestone/target"))
CACHE = pathlib.Path(os.environ.get("FREESTONE_JDBC", pathlib.Path.home() / ".cache/freestone/jdbc"))

# A statement that runs until it is cancelled.
ENDLESS = "SELECT count(*) AS n FROM generate_series(1, 1000000) AS a(v), generate_series(1, 1000000) AS b(v) WHERE a.v % 7 = b.v % 11"


class Failed(Exception):
    def __init__(self, state, message):
        super().__init__(f"{state}: {message}")
        self.state = state


class Unavailable(Exception):
    """The client is not installed on this machine."""


def needs(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(f"the Python module {module} is missing") from error


class Client:
    name = ""
    parameters = True
    cannot = {}

    def close(self):
        pass


class Psycopg(Client):
    """psycopg 3; `how` is text, binary, cursor (DECLARE and FETCH) or copy (COPY … TO STDOUT)."""

    def __init__(self, server, how):
        self.psycopg, self.name, self.how = needs("psycopg"), f"psycopg-{how}", how
        self.parameters = how != "copy"
        host, port = server.postgres.rsplit(":", 1)
        self.connection = self.psycopg.connect(
            host=host, port=port, user=server.user, password=server.password, dbname="freestone", autocommit=how != "cursor"
        )
        # psycopg declares no type for strings by default. How the server infers types is not tested here.
        self.prepare = True

    def execute(self, sql, parameters=()):
        given = [value for _, value in parameters]
        if given:
            sql = re.sub(r"\$(\d+)", "%s", sql.replace("%", "%%"))
        try:
            return getattr(self, self.how if self.how in ("cursor", "copy") else "plain")(sql, given or None)
        except self.psycopg.Error as error:
            if self.how == "cursor":
                self.connection.rollback()
            raise Failed(error.sqlstate, str(error)) from error

    def plain(self, sql, given):
        cursor = self.connection.execute(sql, given, prepare=self.prepare, binary=self.how == "binary")
        return self.rows(cursor, cursor.fetchall()) if cursor.description else []

    def cursor(self, sql, given):
        if not sql.upper().startswith("SELECT"):
            self.connection.execute(sql)
            self.connection.commit()
            return []
        with self.connection.cursor(name="some rows", binary=False) as cursor:
            cursor.itersize = 1000
            cursor.execute(sql, given)
            rows = self.rows(cursor, list(cursor))
        self.connection.commit()
        return rows

    def copy(self, sql, given):
        if not sql.upper().startswith("SELECT"):
            self.connection.execute(sql)
            return []
        description = self.connection.execute(f"SELECT * FROM ({sql}) AS q LIMIT 0").description
        out = []
        for form in ("text", "binary"):
            with self.connection.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT {form})") as copy:
                copy.set_types([column.type_code for column in description])
                out.append(self.rows(None, list(copy.rows()), description))
        if out[0] != out[1]:
            raise Failed("", f"text and binary differ: {out}")
        return out[0]

    @staticmethod
    def rows(cursor, rows, description=None):
        description = description or cursor.description
        return values.lines(rows, {at for at, column in enumerate(description) if column.type_code == 700})

    def cancel(self):
        with cancelling(self.connection.cancel_safe):
            self.execute(ENDLESS)

    def close(self):
        self.connection.close()


class Arrow(Client):
    """The base class of clients that return Arrow tables."""

    @staticmethod
    def rows(table):
        pyarrow = needs("pyarrow")
        singles = {at for at, field in enumerate(table.schema) if pyarrow.types.is_float32(field.type)}
        columns = [micros(pyarrow, column).to_pylist() for column in table.columns]
        return values.lines(list(zip(*columns)), singles)


def micros(pyarrow, column):
    """A column with times in microseconds, because times in Python have no nanoseconds."""
    if pyarrow.types.is_timestamp(column.type) and column.type.unit == "ns":
        return column.cast(pyarrow.timestamp("us", column.type.tz))
    if pyarrow.types.is_time(column.type) and column.type.unit == "ns":
        return column.cast(pyarrow.time64("us"))
    return column


class Adbc(Arrow):
    """An ADBC driver: that of Apache Arrow for Flight SQL, or that of Freestone."""

    def __init__(self, server, how):
        self.name, self.manager = f"adbc-{how}", needs("adbc_driver_manager")
        if how == "flight":
            driver = needs("adbc_driver_flightsql.dbapi")
            login = {"username": server.user, "password": server.password}
            self.connection = driver.connect(f"grpc://{server.flight}", db_kwargs=login, autocommit=True)
        else:
            # The extension module of the package is the driver, too.
            path = os.environ.get("FREESTONE_ADBC_DRIVER") or needs("freestone.adbc").driver_path()
            manager = needs("adbc_driver_manager.dbapi")
            uri = server.address()
            self.connection = manager.connect(driver=path, db_kwargs={"uri": uri}, autocommit=True)

    def execute(self, sql, parameters=()):
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(sql, [value for _, value in parameters] or None)
                return self.rows(cursor.fetch_arrow_table()) if sql.upper().startswith("SELECT") else []
        except self.manager.Error as error:
            raise Failed(state_of(error), str(error)) from error

    def cancel(self):
        cursor = self.connection.cursor()
        try:
            with cancelling(cursor.adbc_cancel):
                cursor.execute(ENDLESS)
                cursor.fetch_arrow_table()
        except self.manager.Error as error:
            raise Failed("57014" if error.status_code == 11 else state_of(error), str(error)) from error
        finally:
            cursor.close()

    def close(self):
        self.connection.close()


class Freestone(Arrow):
    """The Python package `freestone`, over the Freestone protocol."""

    name = "freestone-python"

    def __init__(self, server):
        self.freestone = needs("freestone")
        self.connection = self.freestone.connect(server.address())

    def execute(self, sql, parameters=()):
        try:
            given = [value for _, value in parameters]
            relation = self.connection.sql(sql, given) if given else self.connection.sql(sql)
            return self.rows(relation.arrow()) if sql.upper().startswith("SELECT") else []
        except self.freestone.Error as error:
            raise Failed(getattr(error, "sqlstate", None) or type(error).__name__, str(error)) from error

    # Compares the class of an exception if it has no SQLSTATE.
    @staticmethod
    def same(state, expected):
        classes = {"22": "DataError", "23": "IntegrityError", "42": "ProgrammingError", "57": "OperationalError"}
        if expected == "57014":
            return state in (expected, "CancelledError")
        return state in (expected, classes.get(expected[:2]), "DatabaseError")

    def cancel(self):
        with cancelling(self.connection.cancel):
            self.execute(ENDLESS)

    def close(self):
        self.connection.close()


class Psql(Client):
    """psql. Its results are text without types, so \\gdesc is used to get the types of the columns."""

    name, parameters = "psql", False

    def __init__(self, server):
        if not shutil.which("psql"):
            raise Unavailable("psql is not installed")
        host, port = server.postgres.rsplit(":", 1)
        self.environment = os.environ | {
            "PGHOST": host, "PGPORT": port, "PGUSER": server.user, "PGPASSWORD": server.password, "PGDATABASE": "freestone",
        }

    def command(self, *options):
        return ["psql", "-X", "-q", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-v", "ON_ERROR_STOP=1", *options]

    def execute(self, sql, parameters=()):
        null, field, record = "\x02", "\x1f", "\x1e"
        options = ["-P", f"null={null}", "-F", field, "-R", record]
        query = sql.upper().startswith("SELECT")
        kinds = []
        if query:
            out = self.run(self.command("-F", field), f"{sql} \\gdesc\n")
            kinds = [line.rsplit(field, 1)[1] for line in out.splitlines() if field in line]
        out = self.run(self.command(*options), f"{sql};\n")
        if not query or not out:
            return []
        rows = [line.split(field) for line in out.removesuffix("\n").split(record)]
        read = lambda text, kind: "NULL" if text == null else of_text(text, kind)  # noqa: E731
        return values.summed([" | ".join(map(read, row, kinds)) for row in rows])

    def run(self, command, text):
        done = subprocess.run(command, input=text, env=self.environment, capture_output=True, text=True, encoding="utf-8")
        if done.returncode:
            raise Failed((re.findall(r"(?:ERROR|FATAL):  (\w{5})", done.stderr) or [""])[0], done.stderr.strip())
        return done.stdout

    def cancel(self):
        import signal

        process = subprocess.Popen(
            self.command("-c", ENDLESS), env=self.environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        with cancelling(lambda: process.send_signal(signal.SIGINT), 1.5):
            _, text = process.communicate(timeout=60)
        raise Failed((re.findall(r"ERROR:  (\w{5})", text) or [""])[0], text)


def of_text(text, kind):
    """Converts the text of a value in PostgreSQL to the notation of the cases."""
    if kind == "boolean":
        return {"t": "true", "f": "false"}[text]
    if kind == "real":
        return values.written(float(text), True)
    if kind == "double precision":
        return values.written(float(text))
    if kind == "bytea":
        return values.written(bytes.fromhex(text.removeprefix("\\x")))
    if kind.startswith(("character", "text")):
        return values.written(text)
    if kind.startswith("timestamp"):
        whole, point, rest = text.partition(".")
        zone = "+00:00" if text.endswith("+00") else ""
        digits = rest.removesuffix("+00")
        return whole.removesuffix("+00") + (f".{digits:0<6}" if point else "") + zone
    return text


class Program(Client):
    """A client in a process of its own, which reads requests and writes results line by line, in the form that Jdbc.java describes."""

    def start(self, command):
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8", bufsize=1
        )
        atexit.register(self.process.kill)
        ready = self.process.stdout.readline()
        if ready != "ready\n":
            raise Failed("", f"the program with the driver ended: {ready}")

    def execute(self, sql, parameters=()):
        parts = [sql] + [text for of, value in parameters for text in (of, str(value))]
        return self.ask("execute", parts)

    def state(self, state, message):
        """The SQLSTATE of an error."""
        return state

    def ask(self, word, parts):
        encoded = [base64.b64encode(part.encode()).decode() for part in parts]
        self.process.stdin.write(" ".join([word, *encoded]) + "\n")
        out = []
        for line in self.process.stdout:
            kind, _, rest = line.rstrip("\n").partition(" ")
            if kind == "end":
                return values.summed(out)
            if kind == "error":
                state, _, message = base64.b64decode(rest).decode().partition(" ")
                raise Failed(self.state(state, message), message)
            out.append(" | ".join(of_program(value) for value in rest.split(" ")))
        raise Failed("", "the program with the driver has ended")

    def cancel(self):
        self.ask("cancel", [ENDLESS])

    def close(self):
        self.process.stdin.close()
        self.process.wait(30)


def adbc_library():
    """The path of our ADBC driver as a shared library."""
    driver = pathlib.Path(os.environ.get("FREESTONE_ADBC_DRIVER") or TARGET / "release/libfreestone_adbc.so")
    if not driver.is_file():
        raise Unavailable(f"{driver} is missing: make driver, or name it by FREESTONE_ADBC_DRIVER")
    return str(driver)


class Go(Program):
    """Our ADBC driver in a program of Go, with Arrow's package for Go."""

    name = "adbc-go"

    def __init__(self, server):
        if not shutil.which("go") or not shutil.which("cc"):
            raise Unavailable("go, or a C compiler, is not installed")
        driver = adbc_library()
        program = TARGET / "conformance-go"
        built = subprocess.run(["go", "build", "-o", program, "."], cwd=HERE / "go", capture_output=True, text=True)
        if built.returncode:
            raise Unavailable(f"the program cannot be built: {built.stderr.strip()[-300:]}")
        self.start([program, driver, server.address()])


class Java(Program):
    """Our ADBC driver in a program of Java, with Arrow's package for Java."""

    name = "adbc-java"

    def __init__(self, server):
        if not shutil.which("java"):
            raise Unavailable("java is not installed")
        packages = of_maven(HERE / "java/pom.xml", CACHE.with_name("adbc-java"), ["arrow-c-data-*.jar", "jna-*.jar"])
        self.start(
            ["java", "-Duser.timezone=UTC", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", f"{packages}/*",
             str(HERE / "java/Adbc.java"), adbc_library(), server.address()]
        )


class Node(Program):
    """Our ADBC driver in a program of Node.js, with a package that calls shared libraries."""

    name = "adbc-node"

    def __init__(self, server):
        if not shutil.which("npm"):
            raise Unavailable("Node.js with npm is not installed")
        folder = CACHE.with_name("adbc-node")
        shutil.copytree(HERE / "node", folder, dirs_exist_ok=True)
        # The library for this machine is a package; no install script has to run.
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
        installed = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if installed.returncode:
            raise Unavailable(f"the packages could not be had from npm: {installed.stderr.strip()[-300:]}")
        self.start(["node", str(folder / "adbc.mjs"), adbc_library(), server.address()])


class Jdbc(Program):
    """A JDBC driver, in the process of Jdbc.java."""

    def __init__(self, server, how):
        self.name = f"jdbc-{how}"
        if not shutil.which("java"):
            raise Unavailable("java is not installed")
        if how == "postgresql":
            url = f"jdbc:postgresql://{server.postgres}/freestone?prepareThreshold=2&defaultRowFetchSize=1000"
        else:
            url = f"jdbc:arrow-flight-sql://{server.flight}/?useEncryption=false"
            self.cannot = {
                "types.time": "the driver's times end at seconds",
                "types.unsigned": "the driver reads numbers without sign as numbers with one",
            }
        self.how = how
        self.start(
            ["java", "-Duser.timezone=UTC", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", f"{drivers()}/*",
             str(HERE / "Jdbc.java"), url, server.user, server.password]
        )

    def state(self, state, message):
        return state if self.how == "postgresql" else state_of(message)

    def cancel(self):
        try:
            self.ask("cancel", [ENDLESS])
        except Failed as failed:
            if self.how == "flight" and "ancel" in str(failed):
                raise Failed("57014", str(failed)) from failed
            raise

    def metadata(self):
        """Each method of DatabaseMetaData that returns rows: its name, and the number of rows or the error."""
        return self.ask("metadata", [])


def of_program(text):
    """Converts a value of Jdbc.java or the program of Go, which is a letter for the type and the value, to the notation of the cases."""
    kind, value = text[0], text[1:]
    match kind:
        case "N":
            return "NULL"
        case "f":
            return values.written(struct.unpack(">f", bytes.fromhex(value))[0], True)
        case "d":
            return values.written(struct.unpack(">d", bytes.fromhex(value))[0])
        case "s":
            return values.written(base64.b64decode(value).decode())
        case "x":
            return values.written(base64.b64decode(value))
        case _:
            return base64.b64decode(value).decode()


def drivers():
    """The folder with the two drivers."""
    return of_maven(HERE / "pom.xml", CACHE, ["postgresql-*.jar", "flight-sql-jdbc-driver-*.jar"])


def of_maven(pom, folder, patterns):
    """The folder with the packages of a project, which Maven downloads once, in the versions of its file."""
    if not all(list(folder.glob(pattern)) for pattern in patterns):
        if not shutil.which("mvn"):
            raise Unavailable("mvn, which brings packages of Java, is not installed")
        command = ["mvn", "-q", "-B", "-f", pom, "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode:
            raise Unavailable("the packages could not be had from Maven")
    return folder


def state_of(error):
    """The SQLSTATE in the text of an error, because Flight SQL has no field for it."""
    found = re.findall(r"SQLSTATE:? (\w{5})", str(error))
    return found[-1] if found else ""


@contextlib.contextmanager
def cancelling(cancel, seconds=0.7):
    timer = threading.Timer(seconds, cancel)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# The clients that need only Python packages, and those that need other programs.
PYTHON = {
    "psycopg-text": lambda server: Psycopg(server, "text"),
    "psycopg-binary": lambda server: Psycopg(server, "binary"),
    "psycopg-cursor": lambda server: Psycopg(server, "cursor"),
    "psycopg-copy": lambda server: Psycopg(server, "copy"),
    "adbc-flight": lambda server: Adbc(server, "flight"),
    "adbc-freestone": lambda server: Adbc(server, "freestone"),
    "freestone-python": Freestone,
}
OTHERS = {
    "psql": Psql,
    "adbc-go": Go,
    "adbc-java": Java,
    "adbc-node": Node,
    "jdbc-postgresql": lambda server: Jdbc(server, "postgresql"),
    "jdbc-flight": lambda server: Jdbc(server, "flight"),
}
ALL = PYTHON | OTHERS
