"""How far the rows that joins are expected to give are from those that they give.

python bench/q_error.py                        # TPC-H 1 and SSB 1
python bench/q_error.py --chains 200 --seed 7  # and as many random stars and chains over TPC-H's tables
python bench/q_error.py --output q_error.json

Each query runs once as EXPLAIN (ANALYZE, FORMAT json). The q-error of an operator is the larger of expected / actual and actual /
expected, both at least 1 (Moerkotte, Neumann and Steidl, "Preventing Bad Plans by Bounding the Impact of Cardinality Estimation
Errors", VLDB 2009). Prints the median, the 90th percentile and the largest of scans and of joins, by the number of tables below
them, and the worst joins. The data is synthetic.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import default_freestone, ssb_data, ssb_queries, tpch_data, tpch_queries

#: Keys of TPC-H: a table and its column, and the table and column to which it refers.
KEYS = [
    ("lineitem", "l_orderkey", "orders", "o_orderkey"),
    ("lineitem", "l_partkey", "part", "p_partkey"),
    ("lineitem", "l_suppkey", "supplier", "s_suppkey"),
    ("orders", "o_custkey", "customer", "c_custkey"),
    ("customer", "c_nationkey", "nation", "n_nationkey"),
    ("supplier", "s_nationkey", "nation", "n_nationkey"),
    ("nation", "n_regionkey", "region", "r_regionkey"),
    ("partsupp", "ps_partkey", "part", "p_partkey"),
    ("partsupp", "ps_suppkey", "supplier", "s_suppkey"),
]
FILTERS = {
    "lineitem": ["l_shipdate < DATE '1993-06-01'", "l_quantity < 10", "l_returnflag = 'R'", "l_shipmode = 'AIR'"],
    "orders": ["o_orderdate >= DATE '1997-01-01'", "o_orderpriority = '1-URGENT'", "o_totalprice > 200000"],
    "customer": ["c_mktsegment = 'BUILDING'", "c_acctbal < 0"],
    "part": ["p_size = 15", "p_brand = 'Brand#23'", "p_retailprice < 1200"],
    "supplier": ["s_acctbal > 5000"],
    "nation": ["n_name = 'FRANCE'", "n_regionkey = 2"],
    "region": ["r_name = 'ASIA'"],
    "partsupp": ["ps_availqty < 1000"],
}


def chain(r: random.Random) -> str:
    """A query of two to five tables that keys connect, with filters."""
    used = [r.choice(["lineitem", "orders", "partsupp"])]
    conditions = []
    for _ in range(r.randrange(1, 5)):
        further = [key for key in KEYS if (key[0] in used) != (key[2] in used)]
        source, column, target, referred = r.choice(further)
        used.append(target if source in used else source)
        conditions.append(f"{column} = {referred}")
    conditions += [r.choice(FILTERS[table]) for table in used if r.random() < 0.5]
    return f"SELECT count(*) FROM {', '.join(used)} WHERE {' AND '.join(conditions)}"


def operators(node: dict) -> tuple[list[dict], int]:
    """The scans and joins of a plan with their numbers of tables, and the tables below."""
    found, tables = [], 0
    for child in node.get("Plans", []):
        below, count = operators(child)
        found, tables = found + below, tables + count
    kind = node["Node Type"]
    if kind == "Scan":
        tables = 1
    if "Plan Rows" in node and "Actual Rows" in node and (kind == "Scan" or kind.endswith("join")):
        expected, actual = max(node["Plan Rows"], 1), max(node["Actual Rows"], 1)
        kind = "scan" if kind == "Scan" else "join"
        error = max(expected / actual, actual / expected)
        found.append({"kind": kind, "tables": tables, "expected": expected, "actual": actual, "q": error})
    return found, tables


def measured(freestone: Path, database: str, queries: dict[str, str]) -> list[dict]:
    """The operators of all queries, each with its query's name."""
    found = []
    for name, sql in queries.items():
        sql = "\n".join(line for line in sql.splitlines() if not line.startswith("--")).strip().rstrip(";")
        run = [freestone, database, "--format", "json", "-c", f"EXPLAIN (ANALYZE, FORMAT json) {sql}"]
        done = subprocess.run(run, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        plan = json.loads(json.loads(done.stdout)[0]["plan"])
        found += [{"query": name, **operator} for operator in operators(plan[0]["Plan"])[0]]
    return found


def loaded(freestone: Path, folder: Path, database: str) -> str:
    tables = "; ".join(f"CREATE TABLE {file.stem} AS SELECT * FROM '{file}'" for file in sorted(folder.glob("*.parquet")))
    subprocess.run([freestone, database, "-c", tables], check=True, stdout=subprocess.DEVNULL)
    return database


def show(name: str, found: list[dict]) -> None:
    groups = [("scans", [f for f in found if f["kind"] == "scan"])]
    joins = [f for f in found if f["kind"] == "join"]
    groups += [(f"joins of {count} tables", [f for f in joins if f["tables"] == count]) for count in sorted({f["tables"] for f in joins})]
    groups.append(("all joins", joins))
    print(f"{name}\n{'':24}{'operators':>10}{'median':>9}{'90 %':>9}{'largest':>11}")
    for label, group in groups:
        errors = sorted(f["q"] for f in group)
        if errors:
            print(f"{label:24}{len(errors):>10}{statistics.median(errors):>9.2f}{errors[int(len(errors) * 0.9)]:>9.1f}{errors[-1]:>11.1f}")
    for f in sorted(joins, key=lambda f: -f["q"])[:3]:
        print(f"  {f['query']}: a join of {f['tables']} tables was expected to give {f['expected']} rows, and gave {f['actual']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--freestone", type=Path, default=default_freestone(), help="the program (default: that of `make build`)")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--chains", type=int, default=100, help="random stars and chains")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="writes all operators to a JSON file")
    options = parser.parse_args()
    r = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        tpch = loaded(options.freestone, tpch_data(None, options.scale, options.freestone), f"{folder}/tpch")
        ssb = loaded(options.freestone, ssb_data(None, options.scale, options.freestone), f"{folder}/ssb")
        chains = {f"chain {at}": chain(r) for at in range(options.chains)}
        sets = {"TPC-H": (tpch, tpch_queries()), "SSB": (ssb, ssb_queries()), f"random stars and chains, seed {options.seed}": (tpch, chains)}
        found = {name: measured(options.freestone, database, queries) for name, (database, queries) in sets.items()}
    for name, operators_found in found.items():
        show(name, operators_found)
    if options.output:
        options.output.write_text(json.dumps(found, indent=0))


if __name__ == "__main__":
    main()
