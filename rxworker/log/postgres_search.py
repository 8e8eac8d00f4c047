"""Search over the texts of the runs of a log in Postgres.

Theory of operation. As in SQLite (see `search`), nothing is indexed when a run is written: a search first stores the texts of the runs that have changed, by their
revision, in a table of the same schema, and then reads that table from the newest run on. So a word is found within others and in scripts without spaces, without
an extension of the server; the text search of Postgres finds whole words of one language. Several processes may do so at once: the newer revision stays. A trigger
deletes the text of a run together with the run.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import psycopg

from rxworker.log import postgres_tables as sql
from rxworker.log.postgres_connection import Connection, Row, Server
from rxworker.log.search import KINDS, indexed_texts, storable


class PostgresSearch:
    """The texts of a log. Its methods block, and are called from any thread.

    Args:
        server: The server of the log.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def update(self) -> None:
        """Store the texts of the runs that have changed.

        Raises:
            LogError: The server cannot be reached, or the user may not make tables.
        """
        with self._lock:
            try:
                self._update(self._connected())
            except psycopg.Error as error:
                self._disconnect()
                raise self._server.explained(error) from error

    def find(self, words: Sequence[str], tool: str, before: int, limit: int) -> list[Row]:
        """A page of the runs that match, the newest first: the key of each, its text, and its stored row.

        Raises:
            LogError: The server cannot be reached.
        """
        values = {
            "words": [storable(word) for word in words],
            "tool": storable(f"\n{tool}\n").replace("\0", " ") if tool else "",
            "before": before,
            "limit": limit,
        }
        with self._lock:
            try:
                return self._connected().execute(sql.FIND, values, binary=True).fetchall()
            except psycopg.Error as error:
                self._disconnect()
                raise self._server.explained(error) from error

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._disconnect()

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._server.connect_now()
            self._connection.execute(sql.SEARCH_TABLES)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _update(self, connection: Connection) -> None:
        for key, revision, row in connection.execute(sql.UNSEARCHED, binary=True).fetchall():
            bodies = connection.execute(sql.TEXTS, (key, list(KINDS)), binary=True)
            texts = indexed_texts(row, bodies)
            tools = storable("".join(f"\n{name}\n" for name in texts.tools)).replace("\0", " ")
            values = (revision, texts.text, texts.text.lower(), tools, key)
            connection.execute(sql.INDEX, values)
