"""Ibis on Freestone.

>>> import ibis
>>> con = ibis.freestone.connect()
>>> t = con.create_table("t", ibis.memtable({"a": [1, 2, 3]}), sort="a")
>>> t.a.sum().execute()
6
"""

from __future__ import annotations

from .backend import Backend

__all__ = ["Backend"]
