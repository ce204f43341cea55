"""Differential test of subqueries: compares with DuckDB.

    python3 conformance/random_subqueries.py SCRIPT [COUNT [SEED]]

SCRIPT is the command line `freestone`, or the example `script` of the engine. The Python module `duckdb` must be installed.
The queries have subqueries of every kind, nested up to three levels, over tables with equal column names, NULLs, duplicates and no
rows. Prints the queries whose answers differ, and those that only one of the two systems answers.
"""
import sys

from differential import compare

BATCH = 50
DEEPEST = 3


def tables(r):
    """The statements that create the tables; `e` is empty, `n` has no NULLs."""
    made = []
    for name, rows in (("t", 9), ("u", 7), ("v", 5), ("e", 0), ("n", 6)):
        null = " NOT NULL" if name == "n" else ""
        made.append(f"CREATE TABLE {name} (id INT, a INT{null}, b INT{null}, s VARCHAR)")
        if rows:
            cell = lambda few, name=name: str(r.randrange(few)) if name == "n" or r.random() > 0.2 else "NULL"
            text = lambda: f"'{r.choice('xyz')}'" if r.random() > 0.2 else "NULL"
            values = ", ".join(f"({at}, {cell(4)}, {cell(5)}, {text()})" for at in range(rows))
            made.append(f"INSERT INTO {name} VALUES {values}")
    return made


class Maker:
    def __init__(self, r):
        self.r, self.number = r, 0

    def alias(self, taken):
        free = [name for name in ("x", "y", "z", "t", "u") if name not in taken]
        return self.r.choice(free)

    def column(self, scopes):
        """A numeric column of this query, or of an outer one."""
        r = self.r
        full = [scope for scope in scopes if scope]
        if not full:
            return str(r.randrange(5))
        at = len(full) - 1
        while at and r.random() < 0.35:
            at -= 1
        name, columns = r.choice(full[at])
        return f"{name}.{r.choice(columns)}"

    def number_(self, scopes, depth):
        r = self.r
        p = r.random()
        if p < 0.55:
            return self.column(scopes)
        if p < 0.65:
            return str(r.randrange(5))
        if p < 0.75:
            return f"{self.column(scopes)} + {r.choice([self.column(scopes), r.randrange(3)])}"
        if p < 0.8:
            return f"coalesce({self.column(scopes)}, {r.randrange(4)})"
        if depth <= 0:
            return self.column(scopes)
        if p < 0.84:
            return f"CASE WHEN {self.condition(scopes, depth - 1)} THEN {self.column(scopes)} ELSE {r.randrange(4)} END"
        return f"({self.scalar(scopes, depth - 1)})"

    def condition(self, scopes, depth):
        r = self.r
        p = r.random()
        if depth > 0:
            if p < 0.14:
                return f"{r.choice(['', 'NOT '])}EXISTS ({self.rows(scopes, depth - 1)})"
            if p < 0.34:
                return f"{self.number_(scopes, 0)} {r.choice(['IN', 'NOT IN'])} ({self.rows(scopes, depth - 1)})"
            if p < 0.44:
                op = r.choice(["=", "<>", "<", "<=", ">", ">="])
                return f"{self.number_(scopes, 0)} {op} {r.choice(['ANY', 'ALL'])} ({self.rows(scopes, depth - 1)})"
            if p < 0.54:
                return f"{self.number_(scopes, 0)} {r.choice(['=', '<', '>=', '<>'])} ({self.scalar(scopes, depth - 1)})"
        if depth < 0:
            p = max(p, 0.73)
        if p < 0.64:
            return f"({self.condition(scopes, depth - 1)} {r.choice(['AND', 'OR', 'OR'])} {self.condition(scopes, depth - 1)})"
        if p < 0.69:
            return f"NOT ({self.condition(scopes, depth - 1)})"
        if p < 0.73:
            return f"({self.condition(scopes, depth - 1)}) IS {r.choice(['NULL', 'NOT TRUE', 'FALSE'])}"
        if p < 0.78:
            return f"{self.column(scopes)} IS {r.choice(['', 'NOT '])}NULL"
        if p < 0.82:
            return f"({self.column(scopes)} IS {r.choice(['', 'NOT '])}DISTINCT FROM {self.column(scopes)})"
        return f"{self.number_(scopes, 0)} {r.choice(['=', '=', '=', '<', '>=', '<>'])} {self.number_(scopes, 0)}"

    def source(self, scopes, depth, taken):
        """A relation of FROM, with its alias and columns."""
        r = self.r
        name = self.alias(taken)
        if depth > 0 and r.random() < 0.2:
            return f"({self.rows(scopes, depth - 1, 'a')}) AS {name}", (name, ["a"])
        table = r.choice("tttuuvven")
        return f"{table} AS {name}", (name, ["id", "a", "b"])

    def tables_(self, scopes, depth):
        """A FROM clause, and its scope."""
        r = self.r
        text, first = self.source(scopes, depth, [])
        scope = [first]
        while len(scope) < 3 and r.random() < 0.3:
            taken = [name for name, _ in scope]
            if depth > 0 and r.random() < 0.3:
                name = self.alias(taken)
                inner = self.rows(scopes + [scope], depth - 1, "a")
                kind = r.choice([", LATERAL ({}) AS {}", " CROSS JOIN LATERAL ({}) AS {}", " LEFT JOIN LATERAL ({}) AS {} ON TRUE", " JOIN LATERAL ({}) AS {} ON TRUE"])
                text += kind.format(inner, name)
                scope = scope + [(name, ["a"])]
                if kind[0] == ",":
                    return text, scope
                continue
            other, added = self.source(scopes, depth, taken)
            scope = scope + [added]
            if r.random() < 0.2:
                text += f" CROSS JOIN {other}"
                continue
            kind = r.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            left = f"{scope[-2][0]}.{r.choice(scope[-2][1])}"
            on = f"{left} = {added[0]}.{r.choice(added[1])}"
            if r.random() < 0.25:
                on += f" AND {self.condition(scopes + [scope], depth - 1 if kind in ('JOIN', 'LEFT JOIN') else 0)}"
            text += f" {kind} {other} ON {on}"
        return text, scope

    def where(self, scopes, depth):
        r = self.r
        if r.random() < 0.2:
            return ""
        text = self.condition(scopes, depth)
        while r.random() < 0.3:
            text += f" AND {self.condition(scopes, depth)}"
        return f" WHERE {text}"

    def correlated(self, scopes):
        """A condition: often an equality with a column of an outer query, as in common queries."""
        r = self.r
        if len(scopes) < 2 or not scopes[-2] or r.random() < 0.4:
            return ""
        name, columns = r.choice(scopes[-1])
        outer, others = r.choice(scopes[-2])
        return f"{name}.{r.choice(columns)} {r.choice(['=', '=', '=', '<', '<>'])} {outer}.{r.choice(others)}"

    def filtered(self, scopes, depth):
        own, given = self.correlated(scopes), self.where(scopes, depth)
        if own:
            return given + f" AND {own}" if given else f" WHERE {own}"
        return given

    def further(self, scopes, scope):
        """A column of an outer query that no table of this query hides."""
        own = [name for name, _ in scope]
        return self.column([[(name, all) for name, all in other if name not in own] for other in scopes])

    def aggregate(self, scopes):
        r = self.r
        return r.choice(["count(*)", "count({})", "max({})", "min({})", "sum({})", "count(DISTINCT {})", "count(*) + 1"]).format(self.column(scopes[-1:]))

    def scalar(self, scopes, depth):
        """A query of one column with at most one row, and rarely more."""
        r = self.r
        p = r.random()
        if p < 0.06:
            return f"SELECT {self.number_(scopes, depth)}"
        text, scope = self.tables_(scopes, depth)
        inside = scopes + [scope]
        where = self.filtered(inside, depth)
        if p < 0.65:
            having = f" HAVING {self.aggregate(inside)} {r.choice(['>', '=', '<'])} {r.randrange(3)}" if r.random() < 0.15 else ""
            return f"SELECT {self.aggregate(inside)} AS c FROM {text}{where}{having}"
        if p < 0.9:
            order = r.choice(["", " DESC"])
            offset = r.choice(["", "", " OFFSET 1"])
            return f"SELECT {self.number_(inside, 0)} AS c FROM {text}{where} ORDER BY 1{order} NULLS LAST LIMIT 1{offset}"
        return f"SELECT {self.number_(inside, 0)} AS c FROM {text}{where or ' WHERE FALSE'} AND {scope[0][0]}.{scope[0][1][0]} = {r.randrange(9)}"

    def rows(self, scopes, depth, name="c"):
        """A query of one column."""
        r = self.r
        p = r.random()
        if p < 0.04:
            return f"SELECT {self.number_(scopes, depth)} AS {name}"
        if p < 0.07:
            return f"SELECT w.{name} FROM (VALUES ({self.column(scopes)}), ({self.number_(scopes, 0)})) AS w({name})"
        if p < 0.16:
            op = r.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
            return f"{self.select(scopes, depth, name)} {op} {self.select(scopes, depth, name)}"
        if p < 0.2:
            self.number += 1
            inner = self.select(scopes, depth - 1, name) if depth > 0 else f"SELECT a AS {name} FROM t"
            return f"WITH w{self.number} AS ({inner}) SELECT w{self.number}.{name} FROM w{self.number}"
        return self.select(scopes, depth, name)

    def select(self, scopes, depth, name):
        r = self.r
        text, scope = self.tables_(scopes, depth)
        inside = scopes + [scope]
        where = self.filtered(inside, depth)
        p = r.random()
        if p < 0.45:
            distinct = r.choice(["", "", "", "DISTINCT "])
            return f"SELECT {distinct}{self.number_(inside, depth)} AS {name} FROM {text}{where}"
        if p < 0.6:
            return f"SELECT {self.aggregate(inside)} AS {name} FROM {text}{where}"
        if p < 0.8:
            key = self.column(inside[-1:])
            having = f" HAVING {self.aggregate(inside)} {r.choice(['>', '=', '<'])} {r.choice([str(r.randrange(3)), self.further(scopes, scope)])}" if r.random() < 0.4 else ""
            group = r.choice(["{}", "{}", "{}", "ROLLUP ({})", "GROUPING SETS (({}), ())"]).format(key)
            return f"SELECT {r.choice([key, self.aggregate(inside)])} AS {name} FROM {text}{where} GROUP BY {group}{having}"
        if p < 0.9:
            limit = r.choice(["LIMIT 1", "LIMIT 2", "LIMIT 2 OFFSET 1", "OFFSET 1", "LIMIT 0"])
            return f"(SELECT {self.number_(inside, 0)} AS {name} FROM {text}{where} ORDER BY 1 {r.choice(['', 'DESC'])} NULLS LAST {limit})"
        column, key = self.column(inside[-1:]), self.column(inside[-1:])
        window = r.choice([f"sum({column}) OVER (PARTITION BY {key})", f"count(*) OVER (ORDER BY {key} NULLS FIRST)", f"rank() OVER (PARTITION BY {column} ORDER BY {key} NULLS LAST)", f"max({column}) OVER ()"])
        return f"SELECT {window} AS {name} FROM {text}{where}"

    def query(self):
        r = self.r
        text, scope = self.tables_([], DEEPEST - 1)
        scopes = [scope]
        p = r.random()
        if p < 0.5:
            columns = ", ".join(f"{name}.{c} AS {name}{c}" for name, all in scope for c in all)
            return f"SELECT {columns} FROM {text} WHERE {self.condition(scopes, DEEPEST)}"
        if p < 0.85:
            columns = ", ".join(f"{name}.{c} AS {name}{c}" for name, all in scope for c in all)
            value = r.choice([lambda: f"({self.condition(scopes, DEEPEST)})", lambda: f"({self.scalar(scopes, DEEPEST - 1)})"])()
            return f"SELECT {columns}, {value} AS r FROM {text}{self.where(scopes, 1)}"
        if p < 0.93:
            key = self.column(scopes)
            return f"SELECT {key} AS k, {r.choice(['sum', 'count', 'max'])}(({self.scalar(scopes, DEEPEST - 1)})) AS r FROM {text} GROUP BY {key}"
        key = self.column(scopes)
        grouped = [[(key.split('.')[0], [key.split('.')[1]])]] if "." in key else [[]]
        return f"SELECT {key} AS k, count(*) AS r FROM {text} GROUP BY {key} HAVING {self.condition(grouped, DEEPEST - 1)}"


if __name__ == "__main__":
    sys.exit(compare(tables, lambda r: Maker(r).query(), BATCH))
