"""JSON-RPC 2.0 between two programs that both send requests, one message a line.

Source: https://www.jsonrpc.org/specification. Batches are refused, as the Agent Client Protocol does not have them.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from rxworker.decisions import check_members
from rxworker.errors import DecisionError, InputRefusedError, LocalProtocolError, RxWorkerError
from rxworker.messages.lenient_json import encode_lenient
from rxworker.operators.gate import InputGate, expect_allowed
from rxworker.redact import format_error, json_redactor, redact
from rxworker.tools.cancellation import keep

A = TypeVar("A")

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR, NOT_FOUND, CANCELLED = -32602, -32603, -32002, -32800

LEFT_OUT = ("env", "headers")
"""What a gate does not check: the settings of the client's MCP servers that have its keys."""

Id: TypeAlias = int | str | None

logger = logging.getLogger("rxworker.adapters.acp")


class RpcError(Exception):
    """A request failed.

    Attributes:
        code: The code of JSON-RPC, or of the protocol above it.
        message: The cause and the remedy.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Lines(Protocol):
    """The connection of a peer, such as `LineStreams`."""

    def lines(self) -> AsyncIterator[bytes | None]:
        """The lines that arrive; ``None`` stands for one that was too long."""
        ...

    async def write(self, line: bytes) -> None:
        """Send a line.

        Raises:
            OSError: The other side has left.
        """
        ...


class Method(Struct, frozen=True):
    """A method that the other side may call, as a request or a notification.

    Attributes:
        params: The type of its parameters.
        call: Takes the parameters, and returns the result.
        at_once: Whether it does not wait for the gate: it only ends something, or reads its parameters itself.
    """

    params: type[Any]
    call: Callable[[Any], Awaitable[object]]
    at_once: bool = False


class _Error(Struct, frozen=True):
    code: int = INTERNAL_ERROR
    message: str = ""


class _Message(Struct, frozen=True, omit_defaults=True):
    """Any message: a request, a notification or a response."""

    jsonrpc: str = ""
    id: Id | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _CancelRequest(Struct, frozen=True, rename="camel"):
    """The parameters of ``$/cancel_request``."""

    request_id: Id


_decode = msgspec.json.Decoder(_Message).decode


class Peer:
    """One end of a connection.

    Args:
        connection: The connection.
        methods: The methods that the other side may call, by name.
        gate: What the other side sends must pass it.
    """

    def __init__(self, connection: Lines, methods: Mapping[str, Method], gate: InputGate | None = None) -> None:
        self._connection = connection
        self._gate = gate
        self._methods = {"$/cancel_request": Method(_CancelRequest, self._cancel, at_once=True), **methods}
        self._redact = json_redactor()
        self._numbers = itertools.count(1)
        self._waiting: dict[Id, asyncio.Future[Raw]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering: dict[Id, asyncio.Task[None]] = {}

    async def serve(self) -> None:
        """Take requests until the other side leaves. `close` waits for those that are still being answered."""
        try:
            async for line in self._connection.lines():
                if line is None:
                    await self._refuse(None, RpcError(INVALID_REQUEST, "the message is too long"))
                elif line.strip():
                    await self._receive(line)
        except OSError:
            pass  # it has left
        finally:
            for future in self._waiting.values():
                if not future.done():  # an error of its own for each, since its traceback grows where it is raised
                    future.set_exception(ConnectionResetError("the other side has left"))

    async def close(self, seconds: float = 1.0) -> None:
        """End the requests that are being answered.

        Args:
            seconds: How long they may still take; then they are cancelled.
        """
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def notify(self, method: str, params: object) -> None:
        """Send a notification.

        Raises:
            OSError: The other side has left.
        """
        await self._send({"method": method, "params": params})

    async def request(self, method: str, params: object, result: type[A]) -> A:
        """Send a request, and wait for its result. A wait that is cancelled withdraws the request.

        Raises:
            RpcError: The other side returned an error, or a result of another type.
            InputRefusedError: The gate has not let the result pass.
            OSError: The other side has left.
        """
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"id": number, "method": method, "params": params})
            data = await future
            await expect_allowed(self._gate, data)
            return msgspec.json.decode(data, type=result)
        except asyncio.CancelledError:
            if future.cancelled() or not future.done():
                keep(self._withdraw(number), self._tasks)
            raise
        except msgspec.DecodeError as error:
            raise RpcError(INTERNAL_ERROR, f"the result of {method}: {error}") from error
        finally:
            del self._waiting[number]

    async def read(self, given: Raw | bytes, params: type[A], *, at_once: bool = False) -> A:
        """Decode the parameters of a method, when the gate has let them pass.

        Args:
            given: The parameters as they came.
            params: Their type.
            at_once: Whether they need not pass it.

        Raises:
            InputRefusedError: The gate has not let them pass.
            RpcError: They are of another type.
        """
        await expect_allowed(None if at_once else self._gate, given, LEFT_OUT)
        try:
            return msgspec.json.decode(given, type=params)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise RpcError(INVALID_PARAMS, f"the parameters: {error}") from error

    async def _withdraw(self, number: Id) -> None:
        with suppress(OSError):  # it has left
            await self.notify("$/cancel_request", {"requestId": number})

    async def _receive(self, line: bytes) -> None:
        try:
            message = _decode(line)
        except msgspec.ValidationError as error:
            return await self._refuse(None, RpcError(INVALID_REQUEST, f"no request: {error}"))
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return await self._refuse(None, RpcError(PARSE_ERROR, f"the message is not JSON: {error}"))
        if message.method is not UNSET:
            task = keep(self._answer(message, message.method), self._tasks)
            if message.id is not UNSET:
                self._answering[message.id] = task
        elif message.id is UNSET or (message.result is UNSET and message.error is UNSET):
            await self._refuse(None, RpcError(INVALID_REQUEST, "this is not a request: it has no method"))
        else:
            self._settle(message, message.id, line)
        return None

    def _settle(self, message: _Message, number: Id, line: bytes) -> None:
        """Take a response. One to a request that is no longer waited for is dropped."""
        future = self._waiting.get(number)
        if future is None or future.done():
            return
        try:
            check_members(line, "the response")  # it may be a permission
        except DecisionError as error:
            future.set_exception(error)
            return
        if message.result is not UNSET:
            future.set_result(message.result)
        elif message.error is not UNSET:
            future.set_exception(_error_in(message.error))

    async def _answer(self, message: _Message, name: str) -> None:
        try:
            await self._respond(message, name)
        except OSError:
            pass  # it has left, which `serve` notices
        finally:
            if message.id is not UNSET:
                self._answering.pop(message.id, None)

    async def _cancel(self, given: _CancelRequest) -> None:
        if (task := self._answering.get(given.request_id)) is not None:
            task.cancel()

    async def _respond(self, message: _Message, name: str) -> None:
        try:
            result = await self._call(message, name)
        except asyncio.CancelledError:
            if message.id is not UNSET:
                await self._refuse(message.id, RpcError(CANCELLED, f"{name} was cancelled"))
        except RpcError as error:
            if message.id is not UNSET:
                await self._refuse(message.id, error)
            elif not name.startswith("$/"):  # these may be ignored
                logger.warning("the notification %r failed: %s", name[:80], error, extra={"method": name[:80]})
        else:
            if message.id is not UNSET:
                await self._send({"id": message.id, "result": result})

    async def _call(self, message: _Message, name: str) -> object:
        method = self._methods.get(name)
        if method is None:
            raise RpcError(METHOD_NOT_FOUND, f"there is no method {name[:80]!r}")
        try:
            given = b"{}" if message.params is UNSET else message.params
            return await method.call(await self.read(given, method.params, at_once=method.at_once))
        except (RpcError, OSError):
            raise
        except (LocalProtocolError, InputRefusedError) as error:
            raise RpcError(INVALID_REQUEST, error.message) from error
        except RxWorkerError as error:
            raise RpcError(INTERNAL_ERROR, redact(error.message)) from error
        except Exception as error:
            logger.error("%s failed\n%s", name, format_error(error), extra={"method": name})
            raise RpcError(INTERNAL_ERROR, f"{name} failed; the reason is on standard error") from error

    async def _refuse(self, number: Id, error: RpcError) -> None:
        await self._send({"id": number, "error": {"code": error.code, "message": error.message}})

    async def _send(self, message: dict[str, Any]) -> None:
        await self._connection.write(self._redact(encode_lenient({"jsonrpc": "2.0", **message})))


def _error_in(data: Raw) -> RpcError:
    try:
        error = msgspec.json.decode(data, type=_Error)
    except msgspec.DecodeError:
        error = _Error(message="the error cannot be read")
    return RpcError(error.code, error.message)
