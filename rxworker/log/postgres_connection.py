"""Connections to a Postgres server that are made again when they are lost.

Theory of operation. A `Link` is one connection of the event loop. It does work, and if the connection is lost
meanwhile, it makes another one and does the work again, first at once and then with growing pauses, until `PATIENCE`
seconds are over. So work has to give the same result when it is done twice. A server that accepts connections and does
not answer is taken for lost after the same time: the socket is shut down, which ends the work.

Passwords are in no error: errors show the address without them.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper

from rxworker.errors import ConfigurationError, LogError
from rxworker.log.store import masked
from rxworker.providers.base import HIDDEN

T = TypeVar("T")

Row: TypeAlias = tuple[Any, ...]
AsyncConnection: TypeAlias = psycopg.AsyncConnection[Row]
Connection: TypeAlias = psycopg.Connection[Row]

PATIENCE = 30.0
"""Seconds for which a lost connection raises nothing."""
PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds before the first attempts to connect again; those after them have the last pause."""
OLDEST = 13
"""The oldest server."""
DEFAULT_SCHEMA = "rxworker"

_OPTIONS: Final[dict[str, Any]] = {
    "fallback_application_name": "rxworker",
    "client_encoding": "utf8",
    "connect_timeout": 5,
    # A machine that has vanished is noticed before the leases end.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_LOST = frozenset(
    # The server shuts down, starts, is full, or is a standby; a time-out of an idle session; a deadlock.
    ("57P01", "57P02", "57P03", "53300", "25006", "57P05", "25P03", "40001", "40P01")
)
_SETTINGS = (
    # All queries look up keys; a plan that was made while a table was empty must not read all of it later.
    "SELECT set_config('search_path', %s, false), set_config('enable_seqscan', 'off', false), set_config('jit', 'off', "
    "false), set_config('synchronous_commit', 'off', false)"
)


class Server:
    """A schema of a database, by its address.

    Args:
        address: The address, with ``schema=`` among its parameters or without.

    Attributes:
        address: The address without its passwords.
        schema: The schema.

    Raises:
        ConfigurationError: This is not an address.
    """

    def __init__(self, address: str) -> None:
        self.address = masked(address)
        place, mark, query = address.partition("?")
        parameters = query.split("&")
        named = [each[7:] for each in parameters if each.startswith("schema=")]
        self.schema = named[-1] if named else DEFAULT_SCHEMA
        if not re.fullmatch(r"[a-z_][a-z0-9_]{0,47}", self.schema) or self.schema[:3] == "pg_":
            raise ConfigurationError(
                f"{self.schema!r} cannot be the schema of a log: give up to 48 small letters, digits and _"
            )
        rest = "&".join(each for each in parameters if not each.startswith("schema="))
        try:
            if not place.startswith(("postgresql://", "postgres://")):
                raise psycopg.ProgrammingError
            options = _OPTIONS | conninfo_to_dict(place + (mark and rest and mark + rest))
            self._conninfo = make_conninfo("", **options)
        except psycopg.Error:
            # The error of the library quotes what it does not understand, which may be the password.
            raise ConfigurationError(
                f"{self.address} is not the address of a Postgres database: give "
                "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for characters that have a meaning in it"
            ) from None
        passwords = (options.get("password"), options.get("sslpassword"))
        self._secrets = [str(each) for each in passwords if each]

    def connect_now(self) -> Connection:
        """Connect. Blocks."""
        connection: Connection = psycopg.connect(self._conninfo, autocommit=True)
        try:
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            connection.execute(_SETTINGS, (self.schema,))
        except BaseException:
            connection.close()
            raise
        return connection

    async def connect(self) -> AsyncConnection:
        """Connect."""
        connection: AsyncConnection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
        try:
            connection.adapters.register_dumper(int, Int8BinaryDumper)
            await connection.execute(_SETTINGS, (self.schema,))
        except BaseException:
            await connection.close()
            raise
        return connection

    def explained(self, error: psycopg.Error, *, what: str = "") -> LogError:
        """The error for one of the library, with what to do."""
        text = str(error).strip().replace("\n", " ") or type(error).__name__
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        text = f"{self.address}: {what}{text}{_advice(error)}"
        return LogError(text, retryable=is_lost(error))


def is_lost(error: BaseException | None) -> bool:
    """Whether the same may succeed on another connection."""
    if not isinstance(error, psycopg.Error):
        return False
    state = error.sqlstate
    if state is None:
        return isinstance(error, psycopg.OperationalError)
    return state in _LOST or state.startswith("08")


def _advice(error: psycopg.Error) -> str:
    if is_lost(error):
        return (
            ". Check that the server runs and accepts connections, and the host, the user, the password and the "
            "database in the address; recover the runs that ended"
        )
    if isinstance(error, psycopg.errors.DiskFull):
        return ". Make room on the disk of the server, and recover the runs that ended"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return (
            ". Grant the user CREATE on the database, or open the log once as a user that has it, and grant the rights "
            "to its schema"
        )
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedFunction):
        return ". The tables of the log were removed: open it again"
    return ""


@contextlib.asynccontextmanager
async def pipelined(connection: AsyncConnection) -> AsyncGenerator[psycopg.AsyncPipeline]:
    """A pipeline that raises its first error.

    The library's own also writes a warning for each lost connection, since it cannot end the pipeline there.

    Args:
        connection: The connection.
    """
    failed: psycopg.Error | None = None
    try:
        async with connection.pipeline() as pipeline:
            try:
                yield pipeline
            except psycopg.Error as error:
                failed = error
    except psycopg.Error as error:
        raise failed or error from None
    if failed is not None:
        raise failed


class Link:
    """One connection of the event loop, made again when it is lost.

    Args:
        server: The server.
        prepare: Called with each new connection, before it is used.
    """

    def __init__(self, server: Server, prepare: Callable[[AsyncConnection], Awaitable[object]] | None = None) -> None:
        self.server = server
        self._prepare = prepare
        self._connection: AsyncConnection | None = None

    async def run(self, work: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        """Do work, again on another connection where that is lost.

        Raises:
            LogError: The server cannot be reached, or the work failed.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        pauses = iter(PAUSES)
        pause = 0.0
        while True:
            try:
                connection = await self._connected()
                timer = loop.call_at(end, _shut_down, connection)
                try:
                    return await work(connection)
                finally:
                    timer.cancel()
            except psycopg.Error as error:
                await self.close()
                pause = next(pauses, pause)
                if not is_lost(error):
                    raise self.server.explained(error) from error
                if loop.time() + pause > end:
                    what = f"no answer for {PATIENCE:g} s: "
                    raise self.server.explained(error, what=what) from error
            except UnicodeEncodeError as error:
                await self.close()
                raise LogError(f"{self.server.address}: {error}") from error
            except BaseException:
                await self.close()
                raise
            await asyncio.sleep(pause)

    async def _connected(self) -> AsyncConnection:
        if self._connection is None:
            connection = await self.server.connect()
            try:
                if self._prepare is not None:
                    await self._prepare(connection)
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def close(self) -> None:
        """Close the connection. The next work makes another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                await connection.close()


def _shut_down(connection: AsyncConnection) -> None:
    """End what waits for the server."""
    with contextlib.suppress(OSError, psycopg.Error):
        end = socket.socket(fileno=connection.fileno())
        try:
            end.shutdown(socket.SHUT_RDWR)
        finally:
            end.detach()
