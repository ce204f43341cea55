"""Random statements that define tables, for the model of `row_model`: tables with keys, in every design and medium, their columns
and constraints, and what rewrites their rows."""

import dataclasses

import row_types as types
from row_model import Column, Fails, Key, Reference, Statement, Table, Writer, checked, condition, replaced

MEDIA = ("disk", "memory", "pmem")
PRESETS = ("row", "column", "slotted", "pax", "auto")


def design(r, table):
    """Random options of a design, and whether they name columns."""
    ordered = [column.name for column in table.columns if column.type.is_ordered and column.type.is_key]
    preset = r.choice(PRESETS)
    options = {"medium": r.choice(MEDIA), "preset": preset, "page_size": r.choice(("4KiB", "8KiB", "32KiB"))}
    order = r.sample(ordered, min(len(ordered), r.randrange(1, 3)))
    kind = r.randrange(6)
    # All of these are given, so that none stays from before.
    options |= {"sort": "", "cluster": "", "index": "", "rle_levels": "0"}
    if kind == 1 and order:
        options["sort"] = ", ".join(order)
        options["rle_levels"] = str(r.randrange(len(order) + 1)) if preset != "slotted" else "0"
    if kind == 2 and order:
        options["cluster"] = ", ".join(order)
    if kind == 3 and order:
        options["index"] = ", ".join(order)
    if kind == 4:
        names = [column.name for column in table.columns]
        r.shuffle(names)
        cut = r.randrange(1, len(names) + 1)
        options["column_groups"] = ", ".join(f"({', '.join(part)})" for part in (names[:cut], names[cut:]) if part)
    text = ", ".join(f"{name} = '{value}'" if name != "rle_levels" else f"{name} = {value}" for name, value in options.items())
    return text, kind in (1, 2, 3, 4)


def create(r, state, medium=None):
    """A table. `medium`: it is in this one, and its first column is an INT."""
    name = next(f"t{number}" for number in range(100) if f"t{number}" not in state)
    kinds = [types.INT if medium else r.choice((types.INT, types.INT, types.BIGINT, types.TEXT, types.DOUBLE, types.DATE, types.DECIMAL))]
    kinds += [r.choice(types.ALL) for _ in range(r.randrange(1, 6))]
    columns = [Column(f"c{at}", kind, default=kind.random(r) if r.random() < 0.2 else None) for at, kind in enumerate(kinds)]
    keys, clauses = [], []
    if r.random() < 0.8:
        keys.append(Key(f"{name}_pk", ("c0",), True))
    # Keys of several columns with floats have faults of their own.
    exact = [column.name for column in columns if column.type.is_key and column.type is not types.DOUBLE]
    if exact and r.random() < 0.4:
        several = r.sample(exact, min(len(exact), r.randrange(1, 3)))
        keys.append(Key(f"{name}_key", tuple(several)))
    fixed = {column for key in keys for column in key.columns}
    keys_of_tables = [
        (other.name, key.columns[0])
        for other in state.values()
        for key in other.keys
        if key.is_primary and len(key.columns) == 1 and other.of(key.columns[0]).type is types.INT
    ]
    references = []
    for at, column in enumerate(columns):
        if column.type is types.INT and column.name not in fixed and keys_of_tables and r.random() < 0.3:
            references.append(Reference(column.name, *r.choice(keys_of_tables)))
            columns[at] = column = dataclasses.replace(column, default=None)
        if any(key.is_primary and column.name in key.columns for key in keys):
            columns[at] = dataclasses.replace(column, not_null=True, default=None)
    numbers = [column for column in columns if column.type.is_number and (column.default or 0) < 9]
    checks = (r.choice(numbers).name,) if numbers and r.random() < 0.2 else ()
    clauses += [
        f"CONSTRAINT {key.name} {'PRIMARY KEY' if key.is_primary else 'UNIQUE'} ({', '.join(key.columns)})" for key in keys
    ]
    clauses += [f"CHECK ({column} < 9)" for column in checks]
    clauses += [f"FOREIGN KEY ({ref.column}) REFERENCES {ref.table} ({ref.referenced})" for ref in references]
    table = Table(name, tuple(columns), tuple(keys), checks, tuple(references))
    cells = [
        f"{column.name} {column.type.sql}" + (f" DEFAULT {column.type.literal(column.default)}" if column.default is not None else "")
        for column in columns
    ]
    options, names_columns = design(r, table) if r.random() < 0.6 and not medium else ("", False)
    options = f"medium = '{medium}'" if medium else options
    table = dataclasses.replace(table, names_columns=names_columns)
    behind = f" WITH ({options})" if options else ""
    return Statement(f"CREATE TABLE {name} ({', '.join(cells + clauses)}){behind}", lambda state: replaced(state, table), may_fail=True)


def create_as(r, state):
    table = state[r.choice(sorted(state))]
    name = next(f"t{number}" for number in range(100) if f"t{number}" not in state)
    w = Writer(r)
    w.by_parameter = False
    when, holds = condition(w, table)
    columns = tuple(Column(column.name, column.type) for column in table.columns)

    def after(state):
        rows = tuple(row for row in state[table.name].rows if holds(row))
        return replaced(state, Table(name, columns, rows=rows))

    return w.statement(f"CREATE TABLE {name} AS SELECT * FROM {table.name} WHERE {when}", after)


def drop(r, state):
    name = r.choice(sorted(state))

    def after(state):
        if any(ref.table == name for other in state.values() for ref in other.references if other.name != name):
            raise Fails("rows refer to it")
        return {other: table for other, table in state.items() if other != name}

    return Statement(f"DROP TABLE {name}", after)


def add_column(r, table):
    name = next(f"c{number}" for number in range(1000) if f"c{number}" not in {column.name for column in table.columns})
    kind = r.choice(types.ALL)
    default = kind.random(r) if r.random() < 0.6 else None
    not_null = default is not None and r.random() < 0.3
    clause = f" DEFAULT {kind.literal(default)}" if default is not None else ""

    def after(state):
        now = state[table.name]
        column = Column(name, kind, not_null, default)
        return replaced(
            state, dataclasses.replace(now, columns=(*now.columns, column), rows=tuple((*row, default) for row in now.rows))
        )

    sql = f"ALTER TABLE {table.name} ADD COLUMN {name} {kind.sql}{clause}{' NOT NULL' if not_null else ''}"
    return Statement(sql, after)


def drop_column(r, table):
    free = [column.name for column in table.columns[1:] if column.name not in table.fixed()]
    if not free:
        return add_column(r, table)
    name = r.choice(free)

    def after(state):
        now = state[table.name]
        at = now.place(name)
        rows = tuple(row[:at] + row[at + 1 :] for row in now.rows)
        return replaced(state, dataclasses.replace(now, columns=now.columns[:at] + now.columns[at + 1 :], rows=rows))

    may_fail = table.names_columns or bool(table.copies)
    return Statement(f"ALTER TABLE {table.name} DROP COLUMN {name}", after, may_fail=may_fail)


def rename_column(r, table):
    old = r.choice(table.columns).name
    new = f"{old}_{r.randrange(1000)}"
    renamed = lambda name: new if name == old else name

    def after(state):
        tables = []
        for now in state.values():
            references = tuple(
                dataclasses.replace(
                    ref,
                    column=renamed(ref.column) if now.name == table.name else ref.column,
                    referenced=renamed(ref.referenced) if ref.table == table.name else ref.referenced,
                )
                for ref in now.references
            )
            tables.append(dataclasses.replace(now, references=references))
        state = replaced(state, *tables)
        now = state[table.name]
        columns = tuple(dataclasses.replace(column, name=renamed(column.name)) for column in now.columns)
        keys = tuple(dataclasses.replace(key, columns=tuple(map(renamed, key.columns))) for key in now.keys)
        checks = tuple(map(renamed, now.checked))
        return replaced(state, dataclasses.replace(now, columns=columns, keys=keys, checked=checks))

    return Statement(f"ALTER TABLE {table.name} RENAME COLUMN {old} TO {new}", after, may_fail=bool(table.checked))


def rename_table(r, table):
    new = f"{table.name.split('_')[0]}_{r.randrange(10**6)}"

    def after(state):
        tables = {}
        for now in state.values():
            references = tuple(
                dataclasses.replace(ref, table=new) if ref.table == table.name else ref for ref in now.references
            )
            name = new if now.name == table.name else now.name
            tables[name] = dataclasses.replace(now, name=name, references=references)
        return tables

    return Statement(f"ALTER TABLE {table.name} RENAME TO {new}", after)


def set_not_null(r, table):
    free = [column for column in table.columns if not any(key.is_primary and column.name in key.columns for key in table.keys)]
    if not free:
        return add_column(r, table)
    column = r.choice(free)
    verb = "DROP" if column.not_null else "SET"

    def after(state):
        now = state[table.name]
        columns = tuple(
            dataclasses.replace(other, not_null=verb == "SET") if other.name == column.name else other for other in now.columns
        )
        return checked(replaced(state, dataclasses.replace(now, columns=columns)), table.name)

    return Statement(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} {verb} NOT NULL", after)


def set_default(r, table):
    column = r.choice(table.columns)
    value = column.type.random(r)

    def after(state):
        now = state[table.name]
        columns = tuple(dataclasses.replace(other, default=value) if other.name == column.name else other for other in now.columns)
        return replaced(state, dataclasses.replace(now, columns=columns))

    return Statement(f"ALTER TABLE {table.name} ALTER COLUMN {column.name} SET DEFAULT {column.type.literal(value)}", after)


def widen(r, table):
    narrow = [column for column in table.columns if column.type is types.INT and column.name not in table.fixed()]
    if not narrow:
        return set_default(r, table)
    name = r.choice(narrow).name

    def after(state):
        now = state[table.name]
        columns = tuple(dataclasses.replace(other, type=types.BIGINT) if other.name == name else other for other in now.columns)
        return replaced(state, dataclasses.replace(now, columns=columns))

    return Statement(f"ALTER TABLE {table.name} ALTER COLUMN {name} TYPE BIGINT", after, may_fail=bool(table.copies) or table.names_columns)


def add_unique(r, table):
    exact = [column.name for column in table.columns if column.type.is_key and column.type is not types.DOUBLE]
    name = f"u_{r.randrange(10**6)}"
    key = Key(name, tuple(r.sample(exact, min(len(exact), r.randrange(1, 3)))))
    if not exact or any(set(key.columns) == set(other.columns) for other in table.keys):
        return set_default(r, table)

    def after(state):
        now = state[table.name]
        return checked(replaced(state, dataclasses.replace(now, keys=(*now.keys, key))), table.name)

    return Statement(f"ALTER TABLE {table.name} ADD CONSTRAINT {name} UNIQUE ({', '.join(key.columns)})", after)


def drop_unique(r, table):
    free = [key for key in table.keys if not key.is_primary]
    if not free:
        return add_unique(r, table)
    key = r.choice(free)

    def after(state):
        now = state[table.name]
        return replaced(state, dataclasses.replace(now, keys=tuple(other for other in now.keys if other.name != key.name)))

    return Statement(f"ALTER TABLE {table.name} DROP CONSTRAINT {key.name}", after)


def set_design(r, table):
    options, names_columns = design(r, table)
    after = lambda state: replaced(state, dataclasses.replace(state[table.name], names_columns=table.names_columns or names_columns))
    return Statement(f"ALTER TABLE {table.name} SET DESIGN ({options})", after, may_fail=True)


def copy(r, table):
    if table.copies and r.random() < 0.5:
        name = r.choice(table.copies)
        sql, copies = f"ALTER TABLE {table.name} DROP COPY {name}", tuple(other for other in table.copies if other != name)
    else:
        name = f"y{r.randrange(10**6)}"
        some = [column.name for column in table.columns if r.random() < 0.6] or [table.columns[0].name]
        columns = f" ({', '.join(some)})" if r.random() < 0.5 else ""
        sql = f"ALTER TABLE {table.name} ADD COPY {name}{columns} WITH (preset = '{r.choice(PRESETS)}', page_size = '4KiB')"
        copies = (*table.copies, name)
    return Statement(sql, lambda state: replaced(state, dataclasses.replace(state[table.name], copies=copies)), may_fail=True)


OF_TABLE = (
    (set_design, 8), (add_column, 2), (drop_column, 2), (rename_column, 1), (rename_table, 0.5), (set_not_null, 1),
    (set_default, 0.5), (widen, 0.5), (add_unique, 1), (drop_unique, 0.5), (copy, 1.5),
)
TABLES_MOST = 4


def definition(r, state):
    """A random statement that defines, or rewrites."""
    kind = r.random()
    if kind < 0.12 and len(state) < TABLES_MOST:
        return create(r, state)
    if kind < 0.17 and len(state) < TABLES_MOST:
        return create_as(r, state)
    if kind < 0.22 and len(state) > 1:
        return drop(r, state)
    kinds, weights = zip(*OF_TABLE)
    return r.choices(kinds, weights)[0](r, state[r.choice(sorted(state))])


def maintenance(r, state):
    """A random statement that rewrites rows, and changes none."""
    name = r.choice(sorted(state))
    return Statement(r.choice(("VACUUM", f"VACUUM {name}", f"CHECK {name}")), lambda state: state, is_alone=True)
