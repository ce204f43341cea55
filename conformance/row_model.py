"""A model of tables with keys, and random statements that change them: each with its text and what it does to the model.

A state is a dictionary of tables by name, and is never changed: a statement gives another one, or raises `Fails`. Conditions have
the three values of SQL, as True, False and None.
"""

import collections
import dataclasses
import typing

import row_types as types


class Fails(Exception):
    """The statement violates a constraint, or a value does not fit."""


@dataclasses.dataclass(frozen=True)
class Column:
    name: str
    type: types.Type
    not_null: bool = False
    default: object = None


@dataclasses.dataclass(frozen=True)
class Key:
    name: str
    columns: tuple
    is_primary: bool = False


@dataclasses.dataclass(frozen=True)
class Reference:
    column: str
    table: str
    referenced: str


@dataclasses.dataclass(frozen=True)
class Table:
    name: str
    columns: tuple
    keys: tuple = ()
    #: Columns with `CHECK (column < 9)`.
    checked: tuple = ()
    references: tuple = ()
    copies: tuple = ()
    #: Whether a design names columns, so that these cannot be dropped.
    names_columns: bool = False
    rows: tuple = ()

    def place(self, name):
        return [column.name for column in self.columns].index(name)

    def of(self, name):
        return self.columns[self.place(name)]

    def key_of(self, row, key):
        """The values of a key, as SQL compares them; None if one is NULL."""
        values = [(row[self.place(name)], self.of(name).type) for name in key.columns]
        return None if any(value is None for value, _ in values) else tuple(of.key(value) for value, of in values)

    def fixed(self):
        """The columns that constraints name."""
        names = {name for key in self.keys for name in key.columns}
        return names | set(self.checked) | {reference.column for reference in self.references}

    def contents(self):
        """The rows as they are stored, in no order."""
        exact = [column.type.exact for column in self.columns]
        return collections.Counter(tuple(None if v is None else e(v) for v, e in zip(row, exact)) for row in self.rows)


def replaced(state, *tables):
    return {**state, **{table.name: table for table in tables}}


def checked(state, *names):
    """The state after a statement that has changed these tables."""
    for name in names:
        table = state[name]
        for at, column in enumerate(table.columns):
            if column.not_null and any(row[at] is None for row in table.rows):
                raise Fails("NOT NULL")
        for key in table.keys:
            keys = [found for row in table.rows if (found := table.key_of(row, key)) is not None]
            if len(set(keys)) < len(keys):
                raise Fails("UNIQUE")
        for at in map(table.place, table.checked):
            if any(row[at] is not None and row[at] >= 9 for row in table.rows):
                raise Fails("CHECK")
    for table in state.values():
        for reference in table.references:
            if table.name in names or reference.table in names:
                to = state[reference.table]
                known = {row[to.place(reference.referenced)] for row in to.rows}
                own = {row[table.place(reference.column)] for row in table.rows} - {None}
                if not own <= known:
                    raise Fails("FOREIGN KEY")
    return state


@dataclasses.dataclass
class Statement:
    sql: str
    #: The state after it.
    after: typing.Callable
    parameters: list = dataclasses.field(default_factory=list)
    #: Whether it may be refused for reasons that the model does not know; then it has changed nothing.
    may_fail: bool = False
    #: Whether it cannot be a part of a transaction.
    is_alone: bool = False


class Writer:
    """Writes values into a statement: as literals, or as parameters."""

    def __init__(self, r):
        self.r, self.parameters, self.by_parameter = r, [], r.random() < 0.3

    def value(self, of, value):
        given = of.parameter(value) if self.by_parameter and value is not None else NotImplemented
        if given is NotImplemented:
            return of.literal(value)
        self.parameters.append(given)
        return "\0"

    def statement(self, sql, after, **more):
        if self.parameters:
            sql = sql.replace("%", "%%").replace("\0", "%s")
        return Statement(sql, after, self.parameters, **more)


def compared(of, op, a, b):
    if a is None or b is None:
        return None
    if op in ("=", "<>"):
        return (of.key(a) == of.key(b)) == (op == "=")
    a, b = of.order(a), of.order(b)
    return {"<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[op]


def negated(value):
    return None if value is None else not value


def condition(w, table, prefix="", depth=0):
    """A random condition on a table, and its value for a row."""
    r = w.r
    kind = r.randrange(12 if depth < 2 else 9)
    if kind >= 9:
        left, of_left = condition(w, table, prefix, depth + 1)
        if kind == 11:
            return f"NOT ({left})", lambda row: negated(of_left(row))
        right, of_right = condition(w, table, prefix, depth + 1)
        if kind == 9:
            return f"({left}) AND ({right})", lambda row: conjunction(of_left(row), of_right(row))
        return f"({left}) OR ({right})", lambda row: negated(conjunction(negated(of_left(row)), negated(of_right(row))))
    at = r.randrange(len(table.columns))
    column = table.columns[at]
    name, of = f"{prefix}{column.name}", column.type
    if kind == 0 or of is types.MAP:
        return f"{name} IS NULL", lambda row: row[at] is None
    if kind == 1 and of.is_ordered:
        values = [of.random(r) for _ in range(r.randrange(1, 4))]
        listed = ", ".join(w.value(of, value) for value in values)
        return f"{name} IN ({listed})", lambda row: disjunction(compared(of, "=", row[at], value) for value in values)
    if kind == 2 and of.is_ordered:
        low, high = of.random(r), of.random(r)
        sql = f"{name} BETWEEN {w.value(of, low)} AND {w.value(of, high)}"
        return sql, lambda row: conjunction(compared(of, ">=", row[at], low), compared(of, "<=", row[at], high))
    if kind == 3 and of.is_number:
        rest = r.randrange(3)
        return f"{name} % 3 = {rest}", lambda row: None if row[at] is None else remainder(row[at], 3) == rest
    op = r.choice(("=", "=", "=", "<>", "<", "<=", ">", ">=") if of.is_ordered else ("=", "<>"))
    value = of.random(r)
    return f"{name} {op} {w.value(of, value)}", lambda row: compared(of, op, row[at], value)


def conjunction(a, b):
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def disjunction(values):
    values = list(values)
    return True if True in values else None if None in values else False


def remainder(a, b):
    """With the sign of `a`, as in SQL."""
    return abs(a) % b * (-1 if a < 0 else 1)


def fitting(of, value):
    if of.is_number and value is not None and not -of.most() - 1 <= value <= of.most():
        raise Fails("the value does not fit")
    return value


def expression(w, table, column, prefix=""):
    """A random new value for a column, and what it is for a row."""
    r, of, at = w.r, column.type, table.place(column.name)
    name = f"{prefix}{column.name}"
    same = [other for other in table.columns if other.type is of and other.name != column.name]
    kind = r.randrange(7)
    if kind == 0 and same:
        other = r.choice(same)
        place = table.place(other.name)
        return f"{prefix}{other.name}", lambda row: row[place]
    if kind in (1, 2) and of.is_number:
        by = r.randrange(-2, 3)
        return f"{name} + {by}", lambda row: fitting(of, None if row[at] is None else row[at] + by)
    if kind == 3 and (of.is_number or of is types.DOUBLE):
        return f"-{name}", lambda row: fitting(of, None if row[at] is None else -row[at])
    if kind in (1, 2) and of is types.TEXT:
        return f"{name} || 'x'", lambda row: None if row[at] is None else row[at] + "x"
    if kind == 4:
        when, of_when = condition(w, table, prefix, 1)
        value = of.random(r)
        sql = f"CASE WHEN {when} THEN {w.value(of, value)} ELSE {name} END"
        return sql, lambda row: value if of_when(row) else row[at]
    if kind == 5:
        return name, lambda row: row[at]
    value = random_value(r, column)
    return w.value(of, value), lambda row: value


def random_value(r, column):
    return None if r.random() < (0.02 if column.not_null else 0.12) else column.type.random(r)


def assignments(w, table, prefix=""):
    """Random assignments of a SET, and the row after them."""
    r = w.r
    columns = r.sample(table.columns, r.randrange(1, min(3, len(table.columns)) + 1))
    values = [expression(w, table, column, prefix) for column in columns]
    names, texts = ", ".join(column.name for column in columns), ", ".join(sql for sql, _ in values)
    if len(columns) > 1 and r.random() < 0.3:
        sql = f"({names}) = (SELECT {texts})" if r.random() < 0.4 else f"({names}) = ({texts})"
    else:
        sql = ", ".join(f"{column.name} = {sql}" for column, (sql, _) in zip(columns, values))
    places = [table.place(column.name) for column in columns]

    def assigned(row):
        new = list(row)
        for place, (_, value) in zip(places, values):
            new[place] = value(row)
        return tuple(new)

    return sql, assigned


def random_row(r, table):
    return tuple(random_value(r, column) for column in table.columns)


def inserted_values(w, table, rows):
    """`(columns) VALUES …` and the rows; columns that are left out have their defaults."""
    r = w.r
    left_out = {column.name for column in table.columns if r.random() < 0.1 and column.name not in table.fixed()}
    named = [column for column in table.columns if column.name not in left_out] or list(table.columns)
    names = {column.name for column in named}
    complete = [
        tuple(value if column.name in names else column.default for column, value in zip(table.columns, row)) for row in rows
    ]
    cells = [
        "(" + ", ".join(w.value(column.type, row[table.place(column.name)]) for column in named) + ")" for row in complete
    ]
    return f"({', '.join(column.name for column in named)}) VALUES {', '.join(cells)}", complete


def insert(r, table):
    w = Writer(r)
    sql, rows = inserted_values(w, table, [random_row(r, table) for _ in range(r.choice((1, 1, 1, 2, 3, 5)))])
    grown = lambda state: replaced(state, dataclasses.replace(state[table.name], rows=state[table.name].rows + tuple(rows)))
    return w.statement(f"INSERT INTO {table.name} {sql}", lambda state: checked(grown(state), table.name))


def insert_select(r, table):
    """Rows of a table with new values of its keys, or many rows."""
    w = Writer(r)
    if table.columns[0].type.is_number and r.random() < 0.1:
        return insert_many(r, table, r.choice((60, 700, 3000, 20_000)))
    when, holds = condition(w, table)
    by = r.randrange(1, 40)
    shifted = [column.type.is_number and column.name in table.fixed() for column in table.columns]
    items = (f"{column.name} + {by}" if moves else column.name for column, moves in zip(table.columns, shifted))
    moved = lambda row: tuple(
        fitting(column.type, None if value is None else value + by) if moves else value
        for column, value, moves in zip(table.columns, row, shifted)
    )

    def after(state):
        now = state[table.name]
        rows = tuple(moved(row) for row in now.rows if holds(row))
        return checked(replaced(state, dataclasses.replace(now, rows=now.rows + rows)), table.name)

    return w.statement(f"INSERT INTO {table.name} SELECT {', '.join(items)} FROM {table.name} WHERE {when}", after)


def insert_many(r, table, count):
    """Rows that differ in the first column, which is a number; the other columns have their defaults."""
    first, start = table.columns[0], r.randrange(100, 10**6) * 100
    rows = tuple((start + at, *(column.default for column in table.columns[1:])) for at in range(count))

    def after(state):
        now = state[table.name]
        return checked(replaced(state, dataclasses.replace(now, rows=now.rows + rows)), table.name)

    series = f"generate_series({start}, {start + count - 1}) AS s(g)"
    return Statement(f"INSERT INTO {table.name} ({first.name}) SELECT g FROM {series}", after)


def upsert(r, table):
    if not table.keys:
        return insert(r, table)
    w = Writer(r)
    rows = [satisfying(table, random_row(r, table)) for _ in range(r.choice((1, 1, 2, 3)))]
    sql, rows = inserted_values(w, table, rows)
    key = r.choice(table.keys)
    target = f"({', '.join(key.columns)})"
    kind = r.randrange(5)
    if kind < 2:
        keys, behind = ((key,), f" {target}") if kind == 0 else (table.keys, "")
        after = lambda state: checked(without_conflicts(state, table.name, rows, keys), table.name)
        return w.statement(f"INSERT INTO {table.name} {sql} ON CONFLICT{behind} DO NOTHING", after)
    column = r.choice(table.columns)
    place = table.place(column.name)
    if column.type.is_number and r.random() < 0.5:
        change = f"{column.name} = {table.name}.{column.name} + excluded.{column.name}"
        add = lambda a, b: None if a is None or b is None else fitting(column.type, a + b)
        changed = lambda old, new: old[:place] + (add(old[place], new[place]),) + old[place + 1 :]
    elif r.random() < 0.3 and len(table.columns) > 1:
        other = r.choice([other for other in table.columns if other is not column])
        change = f"({column.name}, {other.name}) = (excluded.{column.name}, excluded.{other.name})"
        both = {place, table.place(other.name)}
        changed = lambda old, new: tuple(b if at in both else a for at, (a, b) in enumerate(zip(old, new)))
    else:
        change = f"{column.name} = excluded.{column.name}"
        changed = lambda old, new: old[:place] + (new[place],) + old[place + 1 :]
    when, holds = ("", lambda row: True)
    if r.random() < 0.2:
        when, holds = condition(w, table, f"{table.name}.")
        when = f" WHERE {when}"

    def after(state):
        now = state[table.name]
        refuse_nulls(now, rows)
        new_keys = [found for row in rows if (found := now.key_of(row, key)) is not None]
        if len(set(new_keys)) < len(new_keys):
            raise Fails("a row is changed twice")
        all_rows = list(now.rows)
        places = {found: at for at, row in enumerate(all_rows) if (found := now.key_of(row, key)) is not None}
        for row in rows:
            at = places.get(now.key_of(row, key))
            if at is None:
                all_rows.append(row)
            elif holds(all_rows[at]):
                all_rows[at] = changed(all_rows[at], row)
        return checked(replaced(state, dataclasses.replace(now, rows=tuple(all_rows))), table.name)

    return w.statement(f"INSERT INTO {table.name} {sql} ON CONFLICT {target} DO UPDATE SET {change}{when}", after)


def satisfying(table, row):
    """A row that satisfies CHECK. Whether a row that is not inserted must do so is not the same in all databases."""
    least = lambda column, value: 8 if column.name in table.checked and value is not None and value > 8 else value
    return tuple(least(column, value) for column, value in zip(table.columns, row))


def refuse_nulls(table, rows):
    if any(column.not_null and row[at] is None for at, column in enumerate(table.columns) for row in rows):
        raise Fails("NOT NULL")


def without_conflicts(state, name, rows, keys):
    """ON CONFLICT DO NOTHING."""
    now = state[name]
    refuse_nulls(now, rows)
    known = {key: {now.key_of(row, key) for row in now.rows} - {None} for key in keys}
    added = []
    for row in rows:
        own = {key: now.key_of(row, key) for key in keys}
        if not any(own[key] in known[key] for key in keys):
            added.append(row)
            for key in keys:
                known[key] |= {own[key]} - {None}
    return replaced(state, dataclasses.replace(now, rows=now.rows + tuple(added)))


def update(r, table):
    w = Writer(r)
    change, assigned = assignments(w, table)
    when, holds = condition(w, table)

    def after(state):
        now = state[table.name]
        rows = tuple(assigned(row) if holds(row) else row for row in now.rows)
        return checked(replaced(state, dataclasses.replace(now, rows=rows)), table.name)

    return w.statement(f"UPDATE {table.name} SET {change} WHERE {when}", after)


def delete(r, table):
    w = Writer(r)
    if r.random() < 0.04:
        when, holds = None, lambda row: True
    else:
        when, holds = condition(w, table)

    def after(state):
        now = state[table.name]
        rows = tuple(row for row in now.rows if not holds(row))
        return checked(replaced(state, dataclasses.replace(now, rows=rows)), table.name)

    return w.statement(f"DELETE FROM {table.name}" + (f" WHERE {when}" if when else ""), after)


def source(w, table):
    """VALUES with one row for each of some values of a column: the text, the column, the one that gets new values, and by
    the key of each value, the value and the new one."""
    r = w.r
    column = r.choice([column for column in table.columns if column.type is not types.MAP])
    given = r.choice(table.columns)
    values = {}
    for _ in range(r.randrange(1, 6)):
        value = column.type.random(r)
        values.setdefault(column.type.key(value), (value, random_value(r, given)))
    # A first row without casts of its own would have the types of its literals.
    cell = lambda of, value: f"CAST({w.value(of, value)} AS {of.sql})"
    rows = ", ".join(f"({cell(column.type, value)}, {cell(given.type, new)})" for value, new in values.values())
    return f"(VALUES {rows}) AS src(on_it, new_one)", column, given, values


def matching(table, column):
    """The key by which a row meets the source; None if it has none."""
    place = table.place(column.name)
    return lambda row: None if row[place] is None else column.type.key(row[place])


def update_from(r, table):
    w = Writer(r)
    if r.random() < 0.3:
        sql, column, _, values = source(w, table)
        meets = matching(table, column)
        text = f"DELETE FROM {table.name} USING {sql} WHERE {table.name}.{column.name} = src.on_it"
        changed = lambda row: None if meets(row) in values else row
    else:
        sql, column, given, values = source(w, table)
        meets, place = matching(table, column), table.place(given.name)
        text = f"UPDATE {table.name} SET {given.name} = src.new_one FROM {sql} WHERE {table.name}.{column.name} = src.on_it"
        changed = lambda row: row[:place] + values[meets(row)][1:] + row[place + 1 :] if meets(row) in values else row

    def after(state):
        now = state[table.name]
        rows = tuple(new for row in now.rows if (new := changed(row)) is not None)
        return checked(replaced(state, dataclasses.replace(now, rows=rows)), table.name)

    return w.statement(text, after)


def merge(r, table):
    w = Writer(r)
    sql, column, given, values = source(w, table)
    meets, place = matching(table, column), table.place(given.name)
    matched = r.choice(("UPDATE", "UPDATE", "DELETE", "NOTHING"))
    when, holds = ("", lambda row: True)
    if r.random() < 0.3:
        when, holds = condition(w, table, f"{table.name}.")
        when = f" AND ({when})"
    then = {"UPDATE": f"UPDATE SET {given.name} = src.new_one", "DELETE": "DELETE", "NOTHING": "DO NOTHING"}[matched]
    text = f"MERGE INTO {table.name} USING {sql} ON {table.name}.{column.name} = src.on_it WHEN MATCHED{when} THEN {then}"
    inserts = r.random() < 0.6
    if inserts:
        names = [column.name] + [given.name] * (given is not column)
        cells = ["src.on_it", "src.new_one"][: len(names)]
        text += f" WHEN NOT MATCHED THEN INSERT ({', '.join(names)}) VALUES ({', '.join(cells)})"
    alone = r.choice((None, None, None, "DELETE"))
    if alone:
        text += " WHEN NOT MATCHED BY SOURCE THEN DELETE"

    def after(state):
        now = state[table.name]
        rows, met = [], set()
        for row in now.rows:
            if (key := meets(row)) not in values:
                rows += [] if alone else [row]
                continue
            met.add(key)
            if not holds(row) or matched == "NOTHING":
                rows.append(row)
            elif matched == "UPDATE":
                rows.append(row[:place] + values[key][1:] + row[place + 1 :])
        for key in [key for key in values if key not in met and inserts]:
            new = [other.default for other in table.columns]
            value, new[place] = values[key]
            new[table.place(column.name)] = value
            rows.append(tuple(new))
        return checked(replaced(state, dataclasses.replace(now, rows=tuple(rows))), table.name)

    return w.statement(text, after)


def truncate(r, table):
    after = lambda state: checked(replaced(state, dataclasses.replace(state[table.name], rows=())), table.name)
    return Statement(f"TRUNCATE {table.name}", after)


CHANGES = (
    (insert, 9), (insert_select, 3), (upsert, 6), (update, 8), (delete, 4), (update_from, 4), (merge, 5), (truncate, 0.3)
)


def change(r, state):
    """A random change of rows."""
    kinds, weights = zip(*CHANGES)
    return r.choices(kinds, weights)[0](r, state[r.choice(sorted(state))])


def query(r, table):
    """A random query of a table, and the texts that it gives."""
    w = Writer(r)
    when, holds = condition(w, table)
    rows = [row for row in table.rows if holds(row)]
    column = r.choice([column for column in table.columns if column.type is not types.MAP])
    of, place, name = column.type, table.place(column.name), column.name
    keys = [of.key(row[place]) for row in rows if row[place] is not None]
    kind = r.randrange(5)
    if kind == 1:
        sql = f"SELECT count({name}), count(DISTINCT {name}) FROM {table.name} WHERE {when}"
        return w.statement(sql, None), [[str(len(keys)), str(len(set(keys)))]]
    if kind == 2 and len(table.rows) < 200:
        counts = collections.Counter(of.key(row[place]) for row in table.rows if row[place] is not None)
        # The condition is on one of the two sides.
        when, holds = condition(w := Writer(r), table, "a.")
        met = (counts[of.key(row[place])] for row in table.rows if row[place] is not None and holds(row))
        sql = f"SELECT count(*) FROM {table.name} a JOIN {table.name} b ON a.{name} = b.{name} WHERE {when}"
        return w.statement(sql, None), [[str(sum(met))]]
    if kind == 3 and of.is_number:
        values = sorted(row[place] for row in rows if row[place] is not None)
        sql = f"SELECT {name} FROM {table.name} WHERE {name} IS NOT NULL AND ({when}) ORDER BY {name} LIMIT 3"
        return w.statement(sql, None), [[str(value)] for value in values[:3]]
    if kind == 4 and of.is_number:
        values = [row[place] for row in rows if row[place] is not None]
        found = [None, None] if not values else [str(min(values)), str(max(values))]
        return w.statement(f"SELECT min({name}), max({name}) FROM {table.name} WHERE {when}", None), [found]
    return w.statement(f"SELECT count(*), count({name}) FROM {table.name} WHERE {when}", None), [[str(len(rows)), str(len(keys))]]
