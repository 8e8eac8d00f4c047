"""The contents of a resource of an MCP server, again after each update.

Theory of operation. Each subscription is a task. It subscribes at the server first and reads then, so that no update
between the two is lost. An update is a mark, not a queue: those that arrive while the contents are read are one more
reading. When the subscription is disposed, the task unsubscribes and ends; the connection cancels those that are left
when it closes.

Since revision 2026-07-28 of the protocol a subscription is a stream of its own. Until 2025-11-25 a connection has one
for each address, so that only the last of several observers of one address unsubscribes.

Sources: https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions and
https://modelcontextprotocol.io/specification/2025-11-25/server/resources
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, TypeVar

from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.errors import RemoteProtocolError, RxWorkerError, TransportError, describe
from rxworker.operators.kernel import Scheduler, Unstaged
from rxworker.tools.mcp_connection import Connection

if TYPE_CHECKING:
    import mcp

A = TypeVar("A")


def watch(connection: Connection, uri: str, read: Callable[[], Awaitable[A]]) -> Observable[A]:
    """What ``read`` returns, now and after each update of a resource. Cold: each subscription is one at the server.

    Args:
        connection: The connection to the server.
        uri: The address of the resource.
        read: Reads it.
    """

    async def work(observer: abc.ObserverBase[A]) -> None:
        try:
            async with aclosing(_updates(connection, uri)) as updates:
                async for _ in updates:
                    value = await read()
                    observer.on_next(value)
        except asyncio.CancelledError:
            # Where it was disposed, this reaches no observer.
            observer.on_error(TransportError(f"the connection to {connection.where} is closed"))
            raise
        except RxWorkerError as error:
            observer.on_error(error)
        else:
            observer.on_completed()

    def subscribe(observer: abc.ObserverBase[A], scheduler: Scheduler = None) -> abc.DisposableBase:
        del scheduler  # no time passes here
        loop = asyncio.get_running_loop()
        task = loop.create_task(work(observer), name=f"rxworker mcp watch {connection.where}")
        connection.watching.add(task)
        task.add_done_callback(connection.watching.discard)

        def stop() -> None:
            with suppress(RuntimeError):  # the loop is closed, and with it the task
                loop.call_soon_threadsafe(task.cancel)

        return Disposable(stop)

    return Unstaged(subscribe)


async def _updates(connection: Connection, uri: str) -> AsyncGenerator[None, None]:
    """Yields when the subscription stands, and after each update.

    Raises:
        TransportError: The connection is closed, or the server does not answer.
        RemoteProtocolError: The server reports an error, or has no updates of this resource.
    """
    from mcp.types.version import MODERN_PROTOCOL_VERSIONS

    client = connection.connected()
    is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    updates = _listening(connection, client, uri) if is_modern else _subscribed(connection, uri)
    async with aclosing(updates):
        async for _ in updates:
            yield


async def _listening(connection: Connection, client: mcp.Client, uri: str) -> AsyncGenerator[None, None]:
    from mcp import MCPError
    from mcp.client.subscriptions import ResourceUpdated, SubscriptionLost

    try:
        async with asyncio.timeout(connection.seconds) as limit:
            async with client.listen(resource_subscriptions=[uri]) as subscription:
                limit.reschedule(None)
                if uri not in (subscription.honored.resource_subscriptions or ()):
                    raise RemoteProtocolError(_NO_UPDATES.format(connection.where, uri))
                yield
                async for event in subscription:
                    if isinstance(event, ResourceUpdated):
                        yield
    except TimeoutError as error:
        text = f"{connection.where} has not answered within {connection.seconds:g} seconds"
        raise TransportError(text, retryable=True) from error
    except SubscriptionLost as error:
        text = f"the updates of {uri} from {connection.where} were cut off: {describe(error)}"
        raise TransportError(text, retryable=True) from error
    except MCPError as error:
        raise RemoteProtocolError(f"{connection.where} reports: {error.message}") from error


async def _subscribed(connection: Connection, uri: str) -> AsyncGenerator[None, None]:
    from mcp import types

    def subscribe(client: mcp.Client) -> Awaitable[object]:
        params = types.SubscribeRequestParams(uri=uri)
        return client.session.send_request(types.SubscribeRequest(params=params), types.EmptyResult)

    def unsubscribe(client: mcp.Client) -> Awaitable[object]:
        params = types.UnsubscribeRequestParams(uri=uri)
        request = types.UnsubscribeRequest(params=params)
        return client.session.send_request(request, types.EmptyResult)

    offered = connection.connected().server_capabilities.resources
    if offered is None or not offered.subscribe:
        raise RemoteProtocolError(_NO_UPDATES.format(connection.where, uri))
    mark = asyncio.Event()
    marks = connection.marks.setdefault(uri, set())
    marks.add(mark)
    try:
        await connection.request(subscribe)  # again for each: the first one may still be on its way
        mark.set()
        while True:
            await mark.wait()
            mark.clear()
            if connection.is_cut:
                raise TransportError(f"{connection.where} has closed the connection")
            yield
    finally:
        marks.discard(mark)
        if not marks:
            connection.marks.pop(uri, None)
            with suppress(RxWorkerError):
                await connection.request(unsubscribe)


_NO_UPDATES = "{} sends no updates of {}: read it with read_resource"
