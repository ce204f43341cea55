"""The magics of notebooks, run by IPython."""

import freestone
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    made = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    made.run_line_magic("load_ext", "freestone")
    yield made
    made.run_line_magic("unload_ext", "freestone")


def value(shell, text):
    """What a cell gives. Its exception is raised."""
    done = shell.run_cell(text)
    done.raise_error()
    return done.result


def test_lines_and_cells_give_relations(shell):
    assert value(shell, "%sql select 1 + 1 as two").fetchall() == [(2,)]
    assert value(shell, "%%sql\nselect 1 as a;\nselect 'x' as b -- the last one").fetchall() == [("x",)]
    assert value(shell, "rows = %sql select 7 as a\nrows.fetchall()") == [(7,)]
    shown = shell.display_formatter.format(value(shell, "%sql select '<i>' as h"))[0]
    assert "&lt;i&gt;" in shown["text/html"] and "<i>" in shown["text/plain"]


def test_variables_are_parameters_and_tables(shell):
    shell.user_ns.update(frame=pd.DataFrame({"n": [1, 2, 3]}), least=2, word="it's")
    cell = "%sql select n, $word as w, '$none' as s from frame where n > $least"
    assert value(shell, cell).fetchall() == [(3, "it's", "$none")]
    assert value(shell, "%%sql\ncreate temp table kept as select 1 as n;\nselect n from kept where n < $least").fetchall() == [(1,)]
    assert value(shell, "%sql select '{least}' as s").fetchall() == [("{least}",)]
    with pytest.raises(freestone.ProgrammingError, match="parameter \\$missing has no value"):
        value(shell, "%sql select $missing")
    value(shell, "%sql drop table kept")


def test_results_go_to_variables(shell):
    assert value(shell, "%sql big << select 5 as a") is None
    assert value(shell, "big.fetchall()") == [(5,)]
    assert value(shell, "%%sql more <<\nselect a + 1 as a\nfrom big") is None
    assert value(shell, "more.fetchall()") == [(6,)]


def test_databases_are_chosen(shell, tmp_path):
    path = tmp_path / "a db"
    assert value(shell, f"%sql --db '{path}' create table t as select 1 as a").rowcount == 1
    assert value(shell, "%sql from t").fetchall() == [(1,)]
    shell.user_ns["mine"] = freestone.connect()
    assert value(shell, "%sql --db mine") is None
    assert value(shell, "%sql select count(*) from freestone_tables()").fetchall() == [(0,)]
    assert value(shell, f'%sql --db="{path}" rows << from t') is None and value(shell, "rows.fetchall()") == [(1,)]
    shell.user_ns["mine"].close()
    with pytest.raises(freestone.InterfaceError, match="the connection is closed"):
        value(shell, "%sql --db mine select 1")


def test_wrong_use_is_an_error(shell):
    with pytest.raises(Exception, match="unknown option --tb"):
        value(shell, "%sql --tb x select 1")
    with pytest.raises(Exception, match="variable <<"):
        value(shell, "%sql")
    with pytest.raises(freestone.ProgrammingError, match="syntax error"):
        value(shell, "%sql selec 1")
