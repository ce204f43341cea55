"""The servers whose results are exported: their setup, loading, start and end, all in temporary folders.

The `processes` of a server are the roots of its process trees; the CPU time of the server is that of these trees.
Packages of Debian and PyPI are downloaded with apt-get and pip into the work folder. Nothing is installed in the
system.
"""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import export_data as data
from environment import laboratory
from export_data import Dataset

READY_SECONDS = 120
HERE = Path(__file__).resolve().parent


class NotAvailable(Exception):
    """A server is not available on this machine; the text gives the reason."""


class Place:
    """Where servers run: a prefix for their commands, and the address that clients connect to."""

    def __init__(self, prefix: Sequence[str] = (), host: str = "127.0.0.1") -> None:
        self.prefix, self.host = list(prefix), host

    @property
    def is_local(self) -> bool:
        return self.host == "127.0.0.1"


class Server:
    """One server with the table of a data set. `endpoint` has the address and login for its clients."""

    kind = ""
    dialect = ""
    #: Setup and tuning of the server, printed below the table.
    note = ""

    def __init__(self, dataset: Dataset, place: Place, work: Path, options: dict[str, Any]) -> None:
        self.dataset, self.place, self.options = dataset, place, options
        self.folder = work / f"{self.kind}-{dataset.folder.name}"
        self.endpoint: dict[str, Any] = {"host": place.host}
        self.processes: list[subprocess.Popen[str]] = []
        try:
            self.start()
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        raise NotImplementedError

    @classmethod
    def fetch(cls, work: Path) -> Path | None:
        """The folder of the server's programs, from Debian packages if the system does not have them."""
        return None

    def version(self) -> str:
        return ""

    def loaded(self, load: Callable[[], None]) -> None:
        """Loads the table, unless an earlier run has done so. Only a complete load is marked as done."""
        mark = self.folder / "loaded"
        if not mark.exists():
            print(f"loading {self.dataset.name} into {self.kind}", file=sys.stderr)
            load()
            mark.touch()

    def spawn(self, command: Sequence[Any], **settings: Any) -> subprocess.Popen[str]:
        words = [*map(str, command)]
        if self.place.prefix and "user" in settings:
            # Only root may enter the network namespace, so the user is changed within it.
            ids = [f"--reuid={settings.pop('user')}", f"--regid={settings.pop('group')}", "--clear-groups"]
            settings.pop("extra_groups", None)
            words = ["setpriv", *ids, *words]
        process: subprocess.Popen[str] = subprocess.Popen([*self.place.prefix, *words], text=True, **settings)
        self.processes.append(process)
        return process

    def stop(self) -> None:
        """Ends the processes of the server: by the stop signal, and after 20 seconds by SIGKILL."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(self.stop_signal)
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.processes = []

    stop_signal = signal.SIGTERM


class Freestone(Server):
    kind = "freestone"
    dialect = "freestone"
    note = (
        "freestone serve, design auto, loaded by INSERT from Parquet, defaults; behind TLS where clients are in "
        "another network namespace, since it refuses plain connections from other machines"
    )

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        binary, database, forms = self.options["freestone"], self.folder / "db", self.options.get("variant", "measured")
        # Several servers may use one database, each with its own log and users.
        self.own = self.folder / forms
        self.own.mkdir(exist_ok=True)

        def load() -> None:
            shutil.rmtree(database, ignore_errors=True)
            file = self.dataset.path("stored", "parquet")
            sql = f"{data.create_table(self.dataset, self.dialect)}; INSERT INTO {self.dataset.name} SELECT * FROM '{file}'"
            subprocess.run([binary, database, "-c", sql], check=True, stdout=subprocess.DEVNULL)

        self.loaded(load)
        address = f"{self.place.host}:0"
        command = [binary, "serve", database, "--listen", address, "--pg", address, "--flight", address]
        command += ["--wire-forms", forms] if "variant" in self.options else []
        command += self.user(binary) if self.place.is_local else [*self.user(binary), *self.certificate()]
        log = open(self.own / "log", "w+")  # noqa: SIM115: it lives as long as the server
        self.spawn(command, stderr=log, stdout=subprocess.DEVNULL)
        text = wait_for(lambda: listening(log, 3), self.processes[-1], self.own / "log")
        for line in text.splitlines():
            scheme, _, rest = line.removeprefix("listening: ").partition("://")
            self.endpoint[{"freestone": "wire", "postgres": "pg"}.get(scheme, scheme)] = int(rest.rpartition(":")[2])
        self.endpoint |= {"user": "ann", "password": PASSWORD, "dbname": "freestone"}
        if not self.place.is_local:
            self.endpoint |= {"ca": str(self.own / "cert.pem")}

    def user(self, binary: str) -> list[str]:
        users = self.own / "users"
        users.unlink(missing_ok=True)
        add = [binary, "user", "add", "ann", "--role", "admin", "--users", users]
        subprocess.run(add, input=PASSWORD, text=True, check=True, capture_output=True)
        return ["--users", str(users)]

    def certificate(self) -> list[str]:
        """A self-signed certificate, which the server requires for addresses other than loopback."""
        certificate, key = self.own / "cert.pem", self.own / "key.pem"
        if not shutil.which("openssl"):
            raise NotAvailable("openssl is missing, which makes the certificate; install it")
        subject = ["-subj", "/CN=export", "-addext", f"subjectAltName=IP:{self.place.host}"]
        make = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "30",
            # Clients other than Freestone's do not accept the certificate of an authority as that of a server.
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        subprocess.run([*make, *subject, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        os.chmod(key, 0o600)
        return ["--tls-cert", str(certificate), "--tls-key", str(key)]

    def version(self) -> str:
        return subprocess.run([self.options["freestone"], "--version"], capture_output=True, text=True).stdout.split(
            "\n"
        )[0]


PASSWORD = "a password for this run"


def listening(log: IO[str], lines: int) -> str:
    log.seek(0)
    found = [line for line in log.read().splitlines() if line.startswith("listening: ")]
    return "\n".join(found) if len(found) >= lines else ""


class Peers(Server):
    """Arrow Flight in C++, CSV and plain sockets: `export_peers.py` in a process of its own."""

    kind = "peers"
    note = "results in the server's memory: record batches, CSV text and the bytes of an Arrow stream"

    def start(self) -> None:
        job = {"host": self.place.host} | {
            form: {kind: str(self.dataset.path(form, kind)) for kind in ("arrow", "csv")}
            # If it computes the result per request, it does so from the stored rows.
            for form in ["stored", *self.options["forms"]]
        }
        command = [sys.executable, HERE / "export_peers.py", json.dumps(job)]
        process = self.spawn(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise NotAvailable("export_peers.py ended; see above")
        self.endpoint |= json.loads(line)

    def version(self) -> str:
        import pyarrow

        return f"pyarrow {pyarrow.__version__}"


class FlightRust(Server):
    kind = "flight-rust"
    note = "freestone-lab flight-server: the crate arrow-flight's encoder over record batches in memory"

    def start(self) -> None:
        files = [f"{form}={self.dataset.path(form, 'arrow')}" for form in self.options["forms"]]
        command = [laboratory(self.options["freestone"]), "flight-server", "--listen", f"{self.place.host}:0", *files]
        process = self.spawn(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("listening: "):
            raise NotAvailable(f"{self.options['freestone']} has no lab flight-server")
        self.endpoint["flight"] = int(line.rpartition(":")[2])


class DuckDb(Server):
    kind = "duckdb"
    note = (
        "DuckDB in a Python process, the table in its memory, loaded from Parquet; Quack, its protocol over HTTP, by the package "
        "duckdb-extension-quack, with its defaults and without TLS"
    )

    def start(self) -> None:
        file = str(self.dataset.path("stored", "parquet"))
        job = {"host": self.place.host, "port": free_port(), "name": self.dataset.name, "file": file, "token": TOKEN}
        command = [sys.executable, HERE / "export_duckdb.py", json.dumps(job)]
        process = self.spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise NotAvailable("export_duckdb.py ended; see above")
        self.endpoint |= json.loads(line)

    def version(self) -> str:
        import duckdb

        return f"DuckDB {duckdb.__version__}"


#: What Quack's clients show.
TOKEN = "token-of-this-run"


class Postgres(Server):
    kind = "postgres"
    dialect = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown
    SETTINGS = {
        "shared_buffers": "3GB",
        "huge_pages": "try",
        "work_mem": "64MB",
        "jit": "off",
        "fsync": "off",
        "synchronous_commit": "off",
        "wal_level": "minimal",
        "max_wal_senders": "0",
        "max_wal_size": "8GB",
        "autovacuum": "off",
        "password_encryption": "scram-sha-256",
    }
    note = (
        "Debian's package; "
        + ", ".join(f"{name}={value}" for name, value in SETTINGS.items() if "password" not in name)
        + "; loaded by COPY, VACUUM FREEZE ANALYZE; trust authentication, no TLS"
    )

    @classmethod
    def fetch(cls, work: Path) -> Path:
        installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
        if installed:
            return installed[-1].parent
        return debian(["postgresql-15", "postgresql-client-15"], "postgresql", work) / "usr/lib/postgresql/15/bin"

    def start(self) -> None:
        self.binaries = self.fetch(self.options["work"])
        self.account = unprivileged("postgres")
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.account:
            shutil.chown(self.folder, *self.account)
        cluster = self.folder / "cluster"
        port = free_port()
        self.endpoint |= {"pg": port, "user": "export", "password": "", "dbname": "postgres"}
        if not (self.folder / "loaded").exists():
            shutil.rmtree(cluster, ignore_errors=True)
            command = [
                self.binaries / "initdb",
                "-D",
                cluster,
                "-U",
                "export",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C",
            ]
            subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, **self.identity())
            with open(cluster / "pg_hba.conf", "a") as rules:
                rules.write("host all all 0.0.0.0/0 trust\n")
        settings = [f"-c{name}={value}" for name, value in self.SETTINGS.items() if name != "password_encryption"]
        settings += [f"-clisten_addresses={self.place.host}", f"-cunix_socket_directories={self.folder}"]
        log = open(self.folder / "log", "w")  # noqa: SIM115: it lives as long as the server
        self.spawn([self.binaries / "postgres", "-D", cluster, "-p", port, *settings], stderr=log, **self.identity())
        wait_for(lambda: self.answers(), self.processes[-1], self.folder / "log")
        self.loaded(self.load)

    def identity(self) -> dict[str, Any]:
        """PostgreSQL does not run as root. Its working directory must be a folder that its user may access."""
        if not self.account:
            return {}
        return {"user": self.account[0], "group": self.account[1], "extra_groups": [], "cwd": "/"}

    def psql(self, sql: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", str(self.folder), "-p", str(self.endpoint["pg"]), "-U", "export", "-d", "postgres"]
        command = [str(self.binaries / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", *where, "-c", sql]
        return subprocess.run(command, capture_output=True, text=True)

    def answers(self) -> str:
        return "yes" if self.psql("SELECT 1").returncode == 0 else ""

    def load(self) -> None:
        file = self.dataset.path("stored", "csv")
        copy = f"\\copy {self.dataset.name} FROM '{file}' WITH (FORMAT csv, DELIMITER '|', NULL '')"
        for sql in (
            f"DROP TABLE IF EXISTS {self.dataset.name}",
            data.create_table(self.dataset, self.dialect),
            copy,
            f"VACUUM (FREEZE, ANALYZE) {self.dataset.name}",
            "CHECKPOINT",
        ):
            done = self.psql(sql)
            if done.returncode:
                raise NotAvailable(f"PostgreSQL does not load: {done.stderr.strip()}")

    def version(self) -> str:
        return subprocess.run([self.binaries / "postgres", "--version"], capture_output=True, text=True).stdout.strip()


class MariaDB(Server):
    kind = "mariadb"
    dialect = "mariadb"
    note = (
        "Debian's package; innodb_buffer_pool_size=3G, innodb_flush_method=O_DIRECT, innodb_flush_log_at_trx_commit=0, "
        "net_buffer_length=1M, max_allowed_packet=1G; loaded by LOAD DATA"
    )

    @classmethod
    def fetch(cls, work: Path) -> Path:
        return debian(["mariadb-server-core"], "mariadb", work)

    def start(self) -> None:
        root = self.fetch(self.options["work"])
        self.folder.mkdir(parents=True, exist_ok=True)
        account = unprivileged("nobody")
        state = self.folder / "state"
        libraries = libraries_of(root)
        server = root / "usr/sbin/mariadbd"
        self.binary, self.libraries = server, libraries
        if not (self.folder / "loaded").exists():
            shutil.rmtree(state, ignore_errors=True)
            state.mkdir()
        port = free_port()
        identity = {"user": account[0], "group": account[1], "extra_groups": []} if account else {}
        if account:
            shutil.chown(self.folder, *account)
            shutil.chown(state, *account)
        common = [server, "--no-defaults", f"--datadir={state}", f"--lc-messages-dir={root}/usr/share/mysql"]
        common += [f"--socket={self.folder}/socket", f"--pid-file={self.folder}/pid", f"--log-error={self.folder}/log"]
        if not (self.folder / "loaded").exists():
            self.bootstrap(root, common, libraries, identity)
        tuned = ["--innodb-buffer-pool-size=3G", "--innodb-flush-method=O_DIRECT", "--innodb-flush-log-at-trx-commit=0"]
        tuned += [
            "--innodb-log-file-size=2G",
            "--skip-log-bin",
            "--net-buffer-length=1048576",
            "--max-allowed-packet=1G",
        ]
        where = [f"--bind-address={self.place.host}", f"--port={port}", "--skip-grant-tables", "--skip-networking=0"]
        where += ["--secure-file-priv=", "--net-write-timeout=3600", "--plugin-dir=/nonexistent"]
        self.spawn([*common, *tuned, *where], env=libraries, cwd="/", **identity)
        self.endpoint |= {"mysql": port, "user": "root", "password": "", "dbname": "export"}
        local = str(self.folder / "socket")
        wait_for(
            lambda: "yes" if os.path.exists(local) and self.query("SELECT 1") else "",
            self.processes[-1],
            self.folder / "log",
        )
        self.loaded(self.load)

    def bootstrap(self, root: Path, common: Sequence[Any], env: dict[str, str], identity: dict[str, Any]) -> None:
        """Creates an empty system database, as mariadb-install-db does."""
        share = root / "usr/share/mysql"
        names = ("mysql_system_tables.sql", "mysql_performance_tables.sql", "mysql_system_tables_data.sql")
        text = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket=NULL;\n"
        text += "\n".join((share / name).read_text() for name in names if (share / name).exists())
        command = [*map(str, common), "--bootstrap", "--plugin-dir=/nonexistent"]
        done = subprocess.run(command, input=text, text=True, env=env, capture_output=True, cwd="/", **identity)
        if done.returncode:
            raise NotAvailable(f"MariaDB makes no system database; see {self.folder}/log: {done.stderr.strip()[-300:]}")

    def query(self, *statements: str) -> bool:
        import pymysql

        try:
            with pymysql.connect(unix_socket=str(self.folder / "socket"), user="root", read_timeout=3600) as connection:
                cursor = connection.cursor()
                for sql in statements:
                    cursor.execute(sql)
                connection.commit()
            return True
        except pymysql.err.OperationalError:
            return False

    def load(self) -> None:
        names = [f"@{field.name}" for field in self.dataset.schema]
        given = ", ".join(f"{field.name} = NULLIF(@{field.name}, '')" for field in self.dataset.schema)
        file = self.dataset.path("stored", "csv")
        rows = f"LOAD DATA INFILE '{file}' INTO TABLE export.{self.dataset.name} FIELDS TERMINATED BY '|' "
        rows += f"({', '.join(names)}) SET {given}"
        create = data.create_table(self.dataset, self.dialect)
        done = self.query("DROP DATABASE IF EXISTS export", "CREATE DATABASE export", "USE export", create, rows)
        if not done:
            raise NotAvailable(f"MariaDB does not load; see {self.folder}/log")

    def version(self) -> str:
        command = [self.binary, "--version"]
        return (
            subprocess.run(command, env=self.libraries, capture_output=True, text=True)
            .stdout.partition(" Ver ")[2]
            .strip()
        )


class ClickHouse(Server):
    kind = "clickhouse"
    dialect = "clickhouse"
    note = (
        "18.16, the one server that the registries have: Debian's package, of 2018 (newer ones come only as a library "
        "without server, chdb); MergeTree; so its figures are that version's, not today's ClickHouse"
    )

    @classmethod
    def fetch(cls, work: Path) -> Path:
        return debian(["clickhouse-server", "clickhouse-client"], "clickhouse", work)

    def start(self) -> None:
        root = self.fetch(self.options["work"])
        self.folder.mkdir(parents=True, exist_ok=True)
        libraries = libraries_of(root)
        port, http = free_port(), free_port()
        state = self.folder / "state"
        if not (self.folder / "loaded").exists():
            shutil.rmtree(state, ignore_errors=True)
        config = self.folder / "config.xml"
        config.write_text(
            CLICKHOUSE_CONFIG.format(host=self.place.host, port=port, http=http, state=state, log=self.folder)
        )
        (self.folder / "users.xml").write_text(CLICKHOUSE_USERS)
        command = [root / "usr/sbin/clickhouse-server", f"--config-file={config}"]
        self.spawn(command, env=libraries, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.endpoint |= {"clickhouse": port, "user": "default", "password": "", "dbname": "default"}
        client = [
            *self.place.prefix,
            str(root / "usr/bin/clickhouse-client"),
            "--host",
            self.place.host,
            "--port",
            str(port),
        ]

        def query(sql: str, **settings: Any) -> bool:
            command = [*client, "--query", sql]
            done = subprocess.run(command, env=libraries, capture_output=True, **settings)
            self.said = done.stderr.decode(errors="replace").strip()[-300:]
            return done.returncode == 0

        wait_for(lambda: "yes" if query("SELECT 1") else "", self.processes[-1], self.folder / "clickhouse.log")

        def load() -> None:
            create = data.create_table(self.dataset, self.dialect)
            rows = tab_separated(self.dataset.path("stored", "csv").read_bytes())
            done = query(f"{create} ENGINE = MergeTree ORDER BY tuple()")
            if not (done and query(f"INSERT INTO {self.dataset.name} FORMAT TabSeparated", input=rows)):
                raise NotAvailable(f"ClickHouse does not load: {self.said}")

        self.loaded(load)


def tab_separated(text: bytes) -> bytes:
    """Converts the CSV file to ClickHouse's TabSeparated, because its CSV format removes spaces around strings."""
    while b"||" in text:
        text = text.replace(b"||", b"|\\N|")
    return text.replace(b"|\n", b"|\\N\n").replace(b"\n|", b"\n\\N|").replace(b"|", b"\t")


CLICKHOUSE_CONFIG = """<?xml version="1.0"?>
<yandex>
  <logger><level>warning</level><log>{log}/clickhouse.log</log><errorlog>{log}/clickhouse.err</errorlog></logger>
  <listen_host>{host}</listen_host><tcp_port>{port}</tcp_port><http_port>{http}</http_port>
  <path>{state}/</path><tmp_path>{state}/tmp/</tmp_path><users_config>users.xml</users_config>
  <default_profile>default</default_profile><default_database>default</default_database>
  <mark_cache_size>1073741824</mark_cache_size><uncompressed_cache_size>4294967296</uncompressed_cache_size>
</yandex>
"""
CLICKHOUSE_USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default><max_memory_usage>8000000000</max_memory_usage><use_uncompressed_cache>1</use_uncompressed_cache></default></profiles>
  <users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
  <quotas><default></default></quotas>
</yandex>
"""


def wait_for(ready: Callable[[], str], process: subprocess.Popen[str], log: Path) -> str:
    """Calls `ready` until it returns a text, and returns that text."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        if found := ready():
            return found
        if process.poll() is not None:
            break
        time.sleep(0.1)
    said = log.read_text(errors="replace")[-500:] if log.exists() else ""
    raise NotAvailable(f"does not start ({' '.join(map(str, process.args))}): {said}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def unprivileged(name: str) -> tuple[int, int] | None:
    """User and group for servers that refuse to run as root; None if this process does not run as root."""
    if os.geteuid() != 0:
        return None
    for candidate in (name, "nobody"):
        try:
            entry = pwd.getpwnam(candidate)
            return entry.pw_uid, entry.pw_gid
        except KeyError:
            continue
    raise NotAvailable(f"there is no user {name} or nobody to run it")


def libraries_of(root: Path) -> dict[str, str]:
    """The environment variables for programs that were unpacked into `root`."""
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(map(str, root.glob("**/lib/*-linux-gnu")))}


def debian(packages: Sequence[str], name: str, work: Path) -> Path:
    """The folder with the files of Debian packages and of those dependencies that the system lacks, downloaded once."""
    root = work / "debian" / name
    done = root / "complete"
    if done.exists():
        return root
    if not shutil.which("apt-get"):
        raise NotAvailable(f"{', '.join(packages)} come from Debian's packages, and there is no apt-get here")
    shutil.rmtree(root, ignore_errors=True)
    archives = root / "archives"
    archives.mkdir(parents=True)
    try:
        plan = ["apt-get", "install", "--print-uris", "--yes", "-qq", "--no-install-recommends", *packages]
        lines = subprocess.run(plan, check=True, capture_output=True, text=True).stdout.splitlines()
        wanted = [line.split()[1].partition("_")[0] for line in lines if line.startswith("'")] or list(packages)
        subprocess.run(
            ["apt-get", "download", "-qq", *wanted], check=True, cwd=archives, capture_output=True, text=True
        )
        for archive in sorted(archives.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", archive, root], check=True)
    except subprocess.CalledProcessError as error:
        raise NotAvailable(
            f"apt-get does not give {', '.join(packages)}: {(error.stderr or '').strip()[-300:]}"
        ) from error
    done.touch()
    return root


SERVERS: dict[str, type[Server]] = {
    kind.kind: kind for kind in (Freestone, Peers, FlightRust, DuckDb, Postgres, MariaDB, ClickHouse)
}
