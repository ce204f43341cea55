"""DuckDB as a server: its protocol Quack, by the extensions that come as Python packages, so that nothing is fetched at run time.

`python export_duckdb.py JOB` loads a Parquet file, serves it, prints its endpoint as JSON, and ends with its input.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

#: Quack's client speaks HTTP by the extension httpfs.
EXTENSIONS = ("httpfs", "quack")


def connected() -> Any:
    """A connection to a database in memory, with the extensions."""
    import duckdb

    connection = duckdb.connect()
    for name in EXTENSIONS:
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        folders = spec.submodule_search_locations if spec else None
        files = [file for folder in folders or () for file in Path(folder).glob(f"extensions/*/{name}.duckdb_extension")]
        if not files:
            sys.exit(f"the package duckdb-extension-{name} is not installed")
        connection.execute(f"LOAD '{files[0]}'")
    return connection


def main() -> None:
    job = json.loads(sys.argv[1])
    connection = connected()
    connection.execute(f"CREATE TABLE {job['name']} AS SELECT * FROM read_parquet('{job['file']}')")
    address = f"quack:{job['host']}:{job['port']}"
    others = "true" if job["host"] != "127.0.0.1" else "false"
    serve = f"CALL quack_serve('{address}', token = '{job['token']}', disable_ssl = true, allow_other_hostname = {others})"
    connection.execute(serve).fetchall()
    print(json.dumps({"quack": address, "token": job["token"]}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
