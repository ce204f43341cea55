"""The dialect of SQLAlchemy 2.

>>> import sqlalchemy
>>> engine = sqlalchemy.create_engine("freestone://")
>>> with engine.connect() as connection:
...     connection.execute(sqlalchemy.text("SELECT 6 * :n AS answer"), {"n": 7}).scalar()
42

The address is ``freestone:///path`` for a database folder (``freestone:////path`` if the path is absolute), ``freestone://``
for one in memory, and ``freestone://user:password@host:port`` for a server. Arguments of :func:`freestone.connect` may follow
after ``?``, such as ``freestone:///path?read_only=true``.

A table has its design in ``freestone_design``, ``freestone_sort``, ``freestone_cluster`` and the like, which are the options
of ``CREATE TABLE … WITH (…)``.
"""

from .dialect import FreestoneDialect

__all__ = ["FreestoneDialect"]
