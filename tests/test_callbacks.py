"""Every function that a program gives.

It may be a coroutine function, which is awaited, or one sentence refuses it when it is given.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import inspect
import pkgutil
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple
from unittest.mock import MagicMock

import aiohttp
import pytest
import reactivex
from msgspec import Struct
from reactivex import operators as ops

import rxworker
from rxworker import Run, Worker, tool
from rxworker.boards import Dashboard, above, panel, publish
from rxworker.errors import LocalProtocolError, RxWorkerError
from rxworker.events import BlockStop, BlockType, RunStart, TextDelta
from rxworker.hooks import Cancel, Hook
from rxworker.hub import Hub, iterate
from rxworker.log import MemoryLog, Replica
from rxworker.messages import Conversation, Message, ToolCall, ToolResult
from rxworker.operators import hold_back, map_async
from rxworker.panels import count
from rxworker.providers import HttpRequest, Request
from rxworker.tap import tap
from rxworker.testing import HookStub, Marbles, ScriptedModel, call, send_context
from rxworker.testing.lab import Outcome
from rxworker.timeline import TEXT_BLOCK, Timeline
from rxworker.tools import Done, Toolbox
from rxworker.tools.base import in_doubt
from rxworker.transport import Client, Retry
from rxworker.transport.client import _sent  # pyright: ignore[reportPrivateUsage]
from rxworker.ui.web import WebServer, serve
from rxworker.worker import recover_all, submit, work
from tests.test_public import names_of, packages

FUNCTION = re.compile(r"\b(Callable|OnNext|OnError|OnCompleted|FrameType)\b")


class Seam(NamedTuple):
    """A parameter that takes a function.

    Attributes:
        owner: What has the parameter.
        path: Its name.
        parameter: The name of the parameter.
        annotation: Its annotation, with the aliases in it replaced.
        type: The class whose method it is.
    """

    owner: Callable[..., Any]
    path: str
    parameter: str
    annotation: str
    type: type | None

    def __str__(self) -> str:
        return f"{self.path}({self.parameter}=)"


@cache
def sources() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The type aliases of the package, and the members of its `TypedDict`s."""
    aliases: dict[str, str] = {}
    members: dict[str, dict[str, str]] = {}
    for info in pkgutil.walk_packages(rxworker.__path__, "rxworker."):
        if "templates" in info.name or info.name.endswith("__main__"):
            continue
        text = inspect.getsource(importlib.import_module(info.name))
        if "TypeAlias" not in text and "TypedDict" not in text:
            continue  # each worker reads the package while it collects
        for node in ast.parse(text).body:
            match node:
                case ast.AnnAssign(
                    target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
                ):
                    aliases[name] = ast.unparse(value)
                case ast.ClassDef(name=name, bases=[ast.Name(id="TypedDict"), *_]):
                    members[name] = {
                        each.target.id: ast.unparse(each.annotation)
                        for each in node.body
                        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name)
                    }
                case _:
                    pass
    for package in packages():
        for name in names_of(package):  # a class and an alias may have the same name
            if inspect.isclass(getattr(package, name)):
                aliases.pop(name, None)
    return aliases, members


def resolved(annotation: str, depth: int = 4) -> str:
    """An annotation with what its aliases stand for."""
    aliases, _ = sources()
    for name in set(re.findall(r"\w+", annotation)) & aliases.keys() if depth else ():
        annotation += " = " + resolved(aliases[name], depth - 1)
    return annotation


def parameters(owner: Callable[..., Any]) -> dict[str, str]:
    """The parameters with their annotations, with the options that ``**options`` stands for."""
    _, members = sources()
    found: dict[str, str] = {}
    for parameter in inspect.signature(owner).parameters.values():
        annotation = str(parameter.annotation)
        unpacked = re.fullmatch(r"Unpack\[(\w+)\]", annotation)
        if unpacked and unpacked[1] in members:
            found |= members[unpacked[1]]
        else:
            found[parameter.name] = annotation
    return found


def owners() -> Iterator[tuple[str, Callable[..., Any], type | None]]:
    """The public functions, classes, and methods of classes."""
    for package in packages():
        for name in names_of(package):
            value = getattr(package, name)
            if not inspect.isclass(value):
                if callable(value):
                    yield name, value, None
                continue
            docs = " ".join(each.__doc__ or "" for each in value.__mro__)
            is_made = re.search(r"\bmade by\b", docs, re.I)
            if not is_made and not getattr(value, "_is_protocol", False):
                yield name, value, None
            for method, member in inspect.getmembers(value, inspect.isroutine):
                is_own = (getattr(member, "__module__", "") or "").startswith("rxworker")
                if is_own and (not method.startswith("_") or method == "__call__"):
                    yield f"{name}.{method}", member, value


@cache
def seams() -> list[Seam]:
    found: dict[tuple[object, str], Seam] = {}
    for path, owner, type_ in owners():
        try:
            given = parameters(owner)
        except (TypeError, ValueError):
            continue
        for name, annotation in given.items():
            text = resolved(annotation)
            if FUNCTION.search(text):
                key = getattr(owner, "__qualname__", path), name
                found.setdefault(key, Seam(owner, path, name, text, type_))
    return list(found.values())


async def asynchronous(*_: Any, **__: Any) -> Any:
    return None


def plain(*_: Any, **__: Any) -> Any:
    return None


class Asynchronous:
    async def __call__(self, *_: Any, **__: Any) -> Any:
        return None

    async def method(self, *_: Any, **__: Any) -> Any:
        return None


class Plain:
    def __call__(self, *_: Any, **__: Any) -> Any:
        return None


COROUTINE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "a coroutine function": asynchronous,
    "an object with __call__": Asynchronous(),
    "a method": Asynchronous().method,
    "a partial": partial(asynchronous, 1),
    "a partial of an object": partial(Asynchronous(), 1),
}


def shaped(seam: Seam, function: Callable[..., Any]) -> Any:
    """The function as the parameter takes it: alone, in a sequence, or in a mapping."""
    aliases, _ = sources()
    head = seam.annotation.partition(" = ")[0]
    head = aliases.get(head, head)
    if head.startswith("Sequence["):
        return [function]
    return {"respond": function} if head.startswith("Mapping[") else function


class Board(Struct, frozen=True):
    last: int = 0


STAND_INS: dict[str, Callable[[], Any]] = {
    "model": lambda: ScriptedModel(["Hello!"]),
    "Anthropic.model": lambda: "a-model",
    "title": lambda: "Cost",
    "name": lambda: "cost",
    "observable": reactivex.never,
    "point": lambda: "before_tool_call",
    "first": lambda: 1.0,
    "idle": lambda: 1.0,
    "start": Board,
    "kind": lambda: TEXT_BLOCK,
    "QueuedWorker.kind": lambda: "clerk",
    "key": lambda: "cost",
    "initial": lambda: 0,
    "pipeline": lambda: ops.map(str),
    "meta": lambda: ops.map(str),
    "blocks": lambda: ops.map(str),
    "conversation": Conversation,
    "limit": lambda: 1,
    "workers": lambda: Worker(ScriptedModel([])),
    "log": MemoryLog,
    "begins": lambda: plain,
    "ends": lambda: plain,
    "gauges": lambda: ops.map(abs),
}
"""What else a function or a class needs to be given a function, by the name of the parameter; by default a mock."""

OBJECTS: dict[str, Callable[[], Any]] = {
    "Run": lambda: Worker(ScriptedModel(["Hello!"])).run("Hi"),
    "Session": lambda: Worker(ScriptedModel(["Hello!"])).session,
    "Published": lambda: publish("cost", reactivex.never()),
    "Watch": lambda: Worker(ScriptedModel(["Hello!"])).run("Hi").watch(),
    "Hub": Hub,
    "EventLog": MemoryLog,
    "Timeline": Timeline,
    "Retry": Retry,
    "Marbles": Marbles,
}
"""The objects whose methods take functions; by default a mock."""


EXEMPT = {
    "Hub.call_in_loop(call=)": "the watchers of a hub call it, for each batch that they read",
    "UiProtocol(stream=)": "it takes an asynchronous generator function",
    "RunRequest(stream=)": "it takes an asynchronous generator function",
    "Session.in_script(verb=)": "it takes a verb of a session, and refuses others; see tests/log/test_verbs.py",
    "record_frame(encode=)": "it is called for each record; EncodedRecords, which is given to it, is checked",
}


def arguments(seam: Seam, function: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with a function, and with stand-ins for what else is needed."""
    value = shaped(seam, function)
    known = inspect.signature(seam.owner).parameters
    positional: list[Any] = []
    named: dict[str, Any] = {} if seam.parameter in known else {seam.parameter: value}
    for parameter in known.values():
        is_it = parameter.name == seam.parameter
        owner = seam.path.partition(".")[0]
        make = STAND_INS.get(f"{owner}.{parameter.name}") or STAND_INS.get(parameter.name, MagicMock)
        if parameter.name == "self":
            assert seam.type is not None
            positional.append(OBJECTS.get(seam.type.__name__, MagicMock)())
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += [value] if is_it else []
        elif parameter.kind is parameter.VAR_KEYWORD:
            named |= {"last": value} if is_it else {}
        elif is_it or parameter.default is parameter.empty:
            if parameter.kind is parameter.POSITIONAL_ONLY:
                positional.append(value if is_it else make())
            else:
                named[parameter.name] = value if is_it else make()
    for parameter in known.values():  # before those that stand in a row
        if any(each.kind is each.VAR_POSITIONAL for each in known.values()) and (
            parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name in named
        ):
            positional.insert(len(positional) - 1, named.pop(parameter.name))
    return positional, named


async def give(seam: Seam, function: Any) -> str:
    """Give a function. Returns the error; empty if there is none."""
    positional, named = arguments(seam, function)

    def call() -> Any:
        return seam.owner(*positional, **named)

    try:
        try:
            result = call()
        except LocalProtocolError:
            result = await asyncio.to_thread(call)
        async with asyncio.timeout(0.05):
            if inspect.isasyncgen(result):
                await anext(result)
            elif inspect.iscoroutine(result):
                await result
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def is_awaited(seam: Seam) -> bool:
    """Whether it is a seam that awaits: its annotation has an awaitable, or it takes any result."""
    return bool(re.search(r"Callable\[\.\.\., Any\]|Awaitable\[|\], object\]", seam.annotation)) and (
        "Defer" not in seam.annotation and "publish" not in seam.path
    )


REFUSING = [seam for seam in seams() if not is_awaited(seam) and str(seam) not in EXEMPT]


@pytest.mark.parametrize("seam", REFUSING, ids=str)
async def test_what_nothing_awaits_is_refused_when_it_is_given(seam: Seam) -> None:
    for kind, function in COROUTINE_FUNCTIONS.items():
        error = await give(seam, function)
        assert error.startswith("ConfigurationError"), (kind, error)
        assert "coroutine function" in error, kind
        assert len(error.splitlines()[0]) < 250, kind
    for function in (plain, partial(plain, 1), Plain()):
        assert "coroutine function" not in await give(seam, function)


# What awaits.


class FaultError(Exception):
    """What a function raises."""


@dataclass(frozen=True)
class Awaiting:
    """A seam that awaits.

    Attributes:
        use: Gives the function and lets it be called. Returns what came of it, with the errors.
        right: What the function returns.
        works: What then comes of it.
        wrong: What comes of another type; empty where any is accepted.
    """

    use: Callable[[Seam, Callable[..., Any]], Awaitable[str]]
    right: Any
    works: str
    wrong: str = ""


@tool
async def fail() -> None:
    """Fail."""
    raise ValueError("no")


async def events_of(run: Run[object]) -> str:
    with suppress(RxWorkerError):
        await run
    events: list[object] = []
    run.events.subscribe(events.append, events.append)
    return str(events)


async def use_formatter(seam: Seam, function: Callable[..., Any]) -> str:
    model = ScriptedModel([call("fail"), "Done."])
    if seam.path == "Toolbox":
        return await events_of(Worker(model, tools=Toolbox([fail], error_formatter=function)).run("Hi"))
    return await events_of(Worker(model, tools=[fail], error_formatter=function).run("Hi"))


async def use_hook(seam: Seam, function: Callable[..., Any]) -> str:
    point = "on_message_send" if seam.path == "Hook" else seam.path
    hooks: list[Any] = [Hook(function, point)]
    if point == "on_abort":
        hooks.append(Hook(HookStub("on_message_send", Cancel("no")), "on_message_send"))
    return await events_of(Worker(ScriptedModel([call("fail"), "Done."]), tools=[fail], hooks=hooks).run("Hi"))


async def use_condition(seam: Seam, function: Callable[..., Any]) -> str:
    async def refuse(context: Any) -> Cancel:
        return Cancel("it was called")

    made = (
        seam.owner(Hook(refuse, "on_message_send"), when=function)
        if seam.path == "chain"
        else Hook(refuse, "on_message_send", when=function)
    )
    return await events_of(Worker(ScriptedModel(["Done."]), hooks=[made]).run("Hi"))


async def use_reconcile(seam: Seam, function: Callable[..., Any]) -> str:
    made = tool(reconcile=function, effect="write")(save)
    return str(await in_doubt(made, ToolCall("1", "save", {}), "key"))


async def save() -> None:
    """Save."""


async def use_barrier(seam: Seam, function: Callable[..., Any]) -> str:
    log = MemoryLog()
    await Worker(ScriptedModel(["Hello!"]), log=log).run("Hi")
    [info] = await log.list()
    replica = Replica(log, info.run_id, barrier=function)
    await replica.ended()
    return f"{replica.state.status} {replica.hub.error}"


async def use_cancel(seam: Seam, function: Callable[..., Any]) -> str:
    run = await tap(
        reactivex.concat(reactivex.of(RunStart(Conversation())), reactivex.never()), cancel=function
    ).started()
    await run.cancel()
    seen: list[object] = []
    run.events.subscribe(seen.append, seen.append)
    return f"{run.state.status} {seen}"


async def use_check(seam: Seam, function: Callable[..., Any]) -> str:
    found: list[Any] = []
    ended = asyncio.Event()

    def end(error: object = None) -> None:
        found.append(error)
        ended.set()

    reactivex.of(TextDelta(0, "a text"), BlockStop(0, BlockType.TEXT)).pipe(hold_back(function)).subscribe(
        found.append, end, end
    )
    await ended.wait()
    return str(found)


class Catching:
    """A transport that keeps the request."""

    def __init__(self) -> None:
        self.sent: list[HttpRequest] = []

    def send(self, request: HttpRequest) -> reactivex.Observable[bytes]:
        self.sent.append(request)
        return reactivex.throw(OSError("caught"))


async def use_key(seam: Seam, function: Callable[..., Any]) -> str:
    given = {"region": "us-east-1", "project": "p", "location": "eu", seam.parameter: function}
    known = inspect.signature(seam.owner).parameters
    provider = seam.owner("a-model", **{name: each for name, each in given.items() if name in known})
    transport, found = Catching(), list[str]()
    client = Client(provider, transport=transport, retry=Retry(retries=0))
    request = Request(Conversation((Message.user("Hi"),)))
    async for event in iterate(client.stream(request).pipe(ops.materialize())):
        found.append(str(event))
    return str([each.headers for each in transport.sent]) + str(found)


async def use_authorize(seam: Seam, function: Callable[..., Any]) -> str:
    transport, sent = Catching(), list[HttpRequest]()
    with suppress(OSError):
        await _sent(transport, sent, HttpRequest("https://a", {}, b"", authorize=function))
    return str([each.url for each in transport.sent])


async def use_stub(seam: Seam, function: Callable[..., Any]) -> str:
    return str(await HookStub("on_message_send", function)(send_context("Hi")))


async def use_call_tool(seam: Seam, function: Callable[..., Any]) -> str:
    context = send_context("Hi", call_tool=function)
    return str(await context.run_tool("look", {}))


async def use_user(seam: Seam, function: Callable[..., Any]) -> str:
    request = MagicMock()
    guard = WebServer(Worker(ScriptedModel([])), user=function).state.guard
    await guard.check_user(request)
    return f"user {request.owner}"


async def use_on_run(seam: Seam, function: Callable[..., Any]) -> str:
    async with WebServer(Worker(ScriptedModel(["Hello!"])), port=0, on_run=function) as server:
        entry = server.state.runs.start("Hi")
        assert entry.here is not None
        return await events_of(entry.here)


ALERTING = Dashboard([panel("Begun", count(RunStart), alert=above(0))])


async def use_on_alert(seam: Seam, function: Callable[..., Any]) -> str:
    before = Returning.total
    async with WebServer(Worker(ScriptedModel(["Hello!"])), port=0, dashboards=[ALERTING], on_alert=function) as server:
        run = server.state.runs.start("Hi").here
        assert run is not None
        await run
        await ended_since(before)
    return ""


async def use_rerun(seam: Seam, function: Callable[..., Any]) -> str:
    async with MemoryLog() as log, aiohttp.ClientSession(trust_env=False) as http:
        run = Worker(ScriptedModel(["Hello!"])).new_session(log=log).run("Hi")
        await run
        async with WebServer(Worker(ScriptedModel([])), port=0, log=log, rerun=function) as server:
            answer = await http.post(f"{server.url}api/runs/{run.id}/rerun", json={})
            return await answer.text()


async def ended_since(before: int, task: asyncio.Task[None] | None = None) -> None:
    """Wait until a call of a `Returning` has ended, or a task, and what it has raised is reported."""
    async with asyncio.timeout(20):
        while Returning.total == before and not (task is not None and task.done()):  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    for _ in range(5):
        await asyncio.sleep(0)


async def use_ready(seam: Seam, function: Callable[..., Any]) -> str:
    before = Returning.total
    serving = asyncio.create_task(serve(Worker(ScriptedModel([])), port=0, ready=function))
    await ended_since(before, serving)
    await asyncio.wait([serving], timeout=20 if isinstance(Returning.last, Exception) else 0)
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    return ""


async def use_make_worker(seam: Seam, function: Callable[..., Any]) -> str:
    log, before = MemoryLog(), Returning.total
    run = await submit(log, "Hi")
    taking = asyncio.create_task(take(seam, log, function))
    replica = Replica(log, run)
    await ended_since(before)
    if isinstance(Returning.last, Worker):
        await replica.ended()
    taking.cancel()
    return str(replica.state.status)


async def take(seam: Seam, log: MemoryLog, function: Callable[..., Any]) -> None:
    if seam.path == "work":
        await work(log, function)
    async for _ in recover_all(log, function):
        pass


async def use_on_taken(seam: Seam, function: Callable[..., Any]) -> str:
    log = MemoryLog()
    replica = Replica(log, await submit(log, "Hi"))
    working = asyncio.create_task(work(log, lambda _: Worker(ScriptedModel(["Hello!"])), on_run=function))
    await replica.ended()
    working.cancel()
    with suppress(asyncio.CancelledError):
        await working
    return str(replica.state.status)


NOT_AN_HTTP_REQUEST = "authorize returned object, not an HttpRequest"


async def use_work(seam: Seam, function: Callable[..., Any]) -> str:
    return str(await reactivex.of("a").pipe(map_async(function, 1)))


AWAITING: dict[str, Awaiting] = {
    "map_async.function": Awaiting(use_work, "done", "done"),
    "error_formatter": Awaiting(use_formatter, "In short: no.", "In short: no.", "which is not a text"),
    "function": Awaiting(use_hook, None, "", "answered <object"),
    "when": Awaiting(use_condition, True, "it was called", "neither True nor False"),
    "reconcile": Awaiting(use_reconcile, Done("saved"), "Done(content='saved'", "return Done(...)"),
    "barrier": Awaiting(use_barrier, None, "finished"),
    "tap.cancel": Awaiting(use_cancel, None, "aborted"),
    "checks": Awaiting(use_check, True, "a text", "return True to let"),
    "api_key": Awaiting(use_key, "key-1", "key-1", "not a string"),
    "access_token": Awaiting(use_key, "key-1", "key-1", "not a string"),
    "authorize": Awaiting(use_authorize, HttpRequest("https://b", {}, b""), "https://b", NOT_AN_HTTP_REQUEST),
    "answers": Awaiting(use_stub, Cancel("no"), "Cancel(reason='no'"),
    "call_tool": Awaiting(use_call_tool, ToolResult("1", "found"), "found"),
    "user": Awaiting(use_user, "ada", "user ada", "user= returned"),
    "on_run": Awaiting(use_on_run, None, ""),
    "work.on_run": Awaiting(use_on_taken, None, "finished"),
    "on_alert": Awaiting(use_on_alert, None, ""),
    "rerun": Awaiting(use_rerun, Outcome("run-1", "same"), '"status":"same"', "rerun= returned"),
    "ready": Awaiting(use_ready, None, ""),
    "make_worker": Awaiting(use_make_worker, Worker(ScriptedModel(["Hello!"] * 50)), "finished", "make_worker=lambda"),
}
"""How a function is used, by the name of its parameter."""

AWAITED = [seam for seam in seams() if is_awaited(seam) and str(seam) not in (*EXEMPT, "tool(function=)")]


class Returning:
    """Functions of each kind that return, or raise, one thing. They count their calls, and the ends of these."""

    total: ClassVar[int] = 0
    last: ClassVar[object] = None  # what one has returned or raised

    def __init__(self, value: Any) -> None:
        self._value = value
        self.begun = self.ended = 0

    def _end(self) -> Any:
        self.ended += 1
        Returning.total += 1
        Returning.last = self._value
        if isinstance(self._value, Exception):
            raise self._value
        return self._value

    def plain(self, *_: Any) -> Any:
        self.begun += 1
        return self._end()

    async def asynchronous(self, *_: Any) -> Any:
        self.begun += 1
        await asyncio.sleep(0)
        return self._end()

    def __call__(self, *_: Any) -> Any:
        return self.asynchronous()

    def kinds(self) -> dict[str, Callable[..., Any]]:
        asynchronous = self.asynchronous

        class WithCall:
            async def __call__(self, *arguments: Any) -> Any:
                return await asynchronous(*arguments)

        def dropping(_: object, *rest: Any) -> Any:
            return self.plain(*rest)

        return {
            "a function": self.plain,
            "a partial of a function": partial(dropping, 1),
            "a coroutine function": asynchronous,
            "an object with __call__": WithCall(),
            "a function that returns a coroutine": self,
            "a partial of a coroutine function": partial(asynchronous, 1),
        }


def use_of(seam: Seam) -> Awaiting:
    found = AWAITING.get(f"{seam.path}.{seam.parameter}") or AWAITING.get(seam.parameter)
    assert found is not None, (
        f"{seam} awaits: say in AWAITING how it is used, or refuse coroutine functions with check_plain"
    )
    return found


async def outcome(seam: Seam, function: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    try:
        found = await use_of(seam).use(seam, function)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return found + caplog.text


@pytest.mark.product(2)
@pytest.mark.parametrize("kind", Returning(None).kinds())
@pytest.mark.parametrize("seam", AWAITED, ids=str)
async def test_what_is_awaited_may_be_any_kind_of_function(
    seam: Seam, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    use = use_of(seam)
    returning = Returning(use.right)
    found = await outcome(seam, returning.kinds()[kind], caplog)
    assert use.works in found
    assert returning.ended == returning.begun >= 1
    raising = Returning(FaultError("the fault"))
    found = await outcome(seam, raising.kinds()[kind], caplog)
    assert "the fault" in found
    assert raising.ended == raising.begun >= 1
    if use.wrong:
        assert use.wrong in await outcome(seam, Returning(object()).kinds()[kind], caplog)
