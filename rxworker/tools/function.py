"""A function as a tool: `tool` makes one, with its arguments decoded by its signature.

A plain function runs in a thread unless it is declared not to block. A function may return a value, an awaitable, a
generator or an observable. The rule for everything that yields several values: a value wrapped in `Progress` is
progress, and is reported at once. Of the rest, the last is the result, and each one before it is reported as progress
when the next one shows that it was not the last.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import functools
import inspect
import sys
import threading
import typing
from collections import ChainMap
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import CoroutineType, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack, cast, overload

import msgspec
from msgspec import UNSET, Struct
from reactivex import Observable, abc
from reactivex.disposable import Disposable
from reactivex.scheduler.eventloop import AsyncIOThreadSafeScheduler

from rxworker.errors import ConfigurationError, ExecutionFailedError, InvalidArgumentError, ToolError, describe
from rxworker.events.pause import AtEnd
from rxworker.messages import CachePoint, ToolMeta, ToolResult
from rxworker.messages.content import ResultContent, TextFormat
from rxworker.messages.custom_types import JsonDecoder, adapt, explain
from rxworker.messages.settings import check_names
from rxworker.tools.base import (
    Effect,
    Progress,
    Reconcile,
    ToolContext,
    ToolPolicy,
    check_meta,
    check_name,
    check_policy,
)
from rxworker.tools.results import to_result
from rxworker.tools.schema import input_schema
from rxworker.tools.signature import Parameter, parse_docstring, read_parameters, resolve

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
B_co = TypeVar("B_co", covariant=True)


class FunctionTool(Generic[P, B_co]):
    """A function as a tool, made by `tool`. Called from Python it is the function it was.

    In a class it is a method: ``app.get_user`` is the tool of that one object.

    Attributes:
        meta: The description for the model.
        policy: The execution policy.
        unbound: Whether it is a method that still lacks its object.
        reconcile: Finds out whether a call had its effect.
    """

    def __init__(
        self, given: Callable[P, B_co], settings: ToolSettings, policy: ToolPolicy, names: Mapping[str, Any]
    ) -> None:
        function, self.unbound = _function(given)
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        name, description = settings.get("name"), settings.get("description")
        name = check_name(function.__name__ if name is None else name)
        parameters = read_parameters(function, name, method=self.unbound, names=names)
        docstring = parse_docstring(function.__doc__)
        shown = _those_of(ToolMeta, settings)
        shown["name"] = name
        shown["description"] = docstring.description if description is None else description
        self.meta = check_meta(ToolMeta(**shown, input_schema=input_schema(parameters, docstring.parameters, name)))
        self.policy = policy
        self.reconcile = settings.get("reconcile")
        self._arguments = ArgumentDecoder(parameters, name)
        _check_examples(self.meta, self._arguments)
        self._on_loop = _belongs_on_loop(function, names)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> B_co:
        """Call the function."""
        return self._function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self: FunctionTool[Concatenate[S, Q], B_co], instance: S, owner: type) -> FunctionTool[Q, B_co]: ...
    def __get__(self, instance: Any, owner: type) -> FunctionTool[..., Any]:
        """The tool of one object."""
        if instance is None or not self.unbound:
            return self
        bound = copy.copy(self)
        bound._function = bound.__dict__["__wrapped__"] = MethodType(self._function, instance)
        bound.unbound = False
        return bound

    def __repr__(self) -> str:
        return f"<tool {self.meta.name!r} {self.__module__}.{self.__qualname__}>"

    async def execute(
        self, input_json: str | bytes, context: ToolContext | None = None, /
    ) -> ResultContent | ToolResult:
        """Decode the arguments, run the function, and make its result something to read.

        Args:
            input_json: The arguments as a JSON object.
            context: The call; a stand-in where the tool is tried out by itself.

        Raises:
            InvalidArgumentError: The arguments do not fit the signature.
            ExecutionFailedError: The function raised, or its result has no JSON form.
        """
        name = self.meta.name
        if self.unbound:
            raise ConfigurationError(f"tool {name!r} is a method and has no object: take it from one")
        context = ToolContext(tool=name) if context is None else context
        try:
            args, kwargs = self._arguments.decode(input_json, context)
            if self._on_loop:
                value: Any = self._function(*args, **kwargs)
            else:
                value = await in_thread(partial(self._work, args, kwargs, context))
            if value.__class__ is CoroutineType:  # as most tools do
                value = await value
            return value if isinstance(value, str) else to_result(await settle(value, context), name)
        except ToolError:
            raise
        except Exception as error:
            raise ExecutionFailedError(describe(error), tool=name) from error

    def _work(self, args: Sequence[Any], kwargs: dict[str, Any], context: ToolContext) -> object:
        """Call the function, in a thread. A generator is followed there too."""
        value: object = self._function(*args, **kwargs)
        if isinstance(value, Generator):
            return settle_generator(cast("Generator[object, None, object]", value), context)
        return value


class ArgumentDecoder:
    """Turns JSON text into the arguments of a function.

    The types are taken as they are: a text is not a number, even if it looks like one.

    Args:
        parameters: The function's parameters.
        tool: The tool's name, for the errors.
    """

    def __init__(self, parameters: Sequence[Parameter], tool: str) -> None:
        self._tool = tool
        self._fields = tuple((f"p{i}", p.name) for i, p in enumerate(parameters) if not p.injected)
        self._injected = tuple(p.name for p in parameters if p.injected)
        self._positional = tuple(p for p in parameters if p.positional)
        self._decoder = JsonDecoder(_struct(parameters, tool))

    def decode(self, input_json: str | bytes, context: ToolContext) -> tuple[Sequence[Any], dict[str, Any]]:
        """The positional and the named arguments.

        Args:
            input_json: A JSON object; no text at all is an empty one.
            context: The value of injected parameters.

        Raises:
            InvalidArgumentError: It does not fit; the error names the path.
        """
        try:
            given = self._decoder.decode(input_json if input_json.strip() else b"{}")
        except msgspec.ValidationError as error:
            path, reason = explain(str(error))
            raise self._invalid(reason, path) from error
        # No JSON, a lone surrogate, or brackets without end.
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise self._invalid(f"this is not a JSON object: {error}", "$") from error
        named: dict[str, Any] = {}
        for field, name in self._fields:
            value = getattr(given, field)
            if value is not UNSET:
                named[name] = value
        for name in self._injected:
            named[name] = context
        if not self._positional:
            return (), named
        return [named.pop(p.name, p.default) for p in self._positional], named

    def _invalid(self, reason: str, path: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"invalid arguments at {path}: {reason}", tool=self._tool, path=path)


def _struct(parameters: Sequence[Parameter], tool: str) -> type[Struct]:
    """A Struct with a field for each argument.

    Its fields have generated names, so that a parameter may have any name. An argument that is not given stays
    ``UNSET``, and Python then uses the default.
    """
    fields = {f"p{i}": p for i, p in enumerate(parameters) if not p.injected}
    definitions: list[Any] = [
        (key, adapt(p.annotation), *(() if p.required else (UNSET,))) for key, p in fields.items()
    ]
    try:
        return msgspec.defstruct(
            "Arguments",
            definitions,
            rename={key: p.name for key, p in fields.items()},
            forbid_unknown_fields=True,
            kw_only=True,
        )
    except Exception as error:
        raise ConfigurationError(f"tool {tool!r}: its arguments cannot be decoded: {error}") from error


B = TypeVar("B")


class ToolThread(threading.Thread):
    """A thread in which a tool works.

    Args:
        work: What it does.
        loop: The event loop that waits for it.

    Attributes:
        loop: The event loop.
        is_done: Whether the loop has its result.
    """

    def __init__(self, work: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(target=work, name="rxworker-tool", daemon=True)
        self.loop = loop
        self.is_done = False


async def in_thread(function: Callable[[], B]) -> B:
    """Run a function in a thread of its own, and wait for it.

    A thread cannot be stopped. When the wait is cancelled the thread is left to end by itself, and its result
    is dropped. That is why it is not one of the loop's pool: a function that hangs would keep its place in the pool,
    and the loop could not be closed before it.

    Args:
        function: The function to run. It has the caller's context variables.
    """
    loop = asyncio.get_running_loop()
    # The error is its value: a future takes no StopIteration as an exception.
    done: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            outcome = context.run(function), None
        except BaseException as error:
            outcome = None, error
        with contextlib.suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(deliver, outcome)

    def deliver(outcome: tuple[Any, BaseException | None]) -> None:
        thread.is_done = True
        if not done.done():
            done.set_result(outcome)

    thread = ToolThread(work, loop)
    thread.start()
    value, error = await done
    if error is not None:
        raise error
    return value


class _Last:
    """Takes values one by one; knows which of them is the result."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._held: object = UNSET

    def take(self, item: object) -> None:
        if isinstance(item, Progress):
            self._context.progress(cast("Progress[object]", item).value)
            return
        if self._held is not UNSET:
            self._context.progress(self._held)
        self._held = item

    @property
    def result(self) -> object:
        return None if self._held is UNSET else self._held


class LoopScheduler(AsyncIOThreadSafeScheduler):
    """Reports what an action raises. The event loop would only log it, and ``SystemExit`` would end the loop.

    Args:
        loop: The event loop.
        fail: Receives the error.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fail: Callable[[BaseException], None]) -> None:
        super().__init__(loop)
        self._fail = fail

    @property
    def now(self) -> datetime:
        """The time of the loop, if that is virtual; otherwise that of day, as reactivex has it."""
        return getattr(self._loop, "now", None) or super().now

    def invoke_action(self, action: abc.ScheduledAction[Any], state: Any = None) -> abc.DisposableBase:
        """Run an action."""
        try:
            return super().invoke_action(action, state)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._fail(error)
            return Disposable()


async def settle(value: object, context: ToolContext) -> object:
    """Wait until it is a value: await what can be awaited, follow generators and observables to their end.

    Args:
        value: The return value of a tool's function.
        context: Receives reports of progress.
    """
    while True:
        if isinstance(value, Observable):
            last = _Last(context)
            error = await follow(cast("Observable[Any]", value), last.take)
            if error is not None:
                raise error
            value = last.result
        elif isinstance(value, AsyncIterator):
            value = await _exhaust(cast("AsyncIterator[object]", value), context)
        elif inspect.isawaitable(value):
            value = await value
        else:
            return value


def settle_generator(generator: Generator[object, None, object], context: ToolContext) -> object:
    """Iterate over a plain generator, in a thread. It is closed at its next ``yield`` once the call is cancelled."""
    last = _Last(context)
    with contextlib.closing(generator):
        for item in generator:
            last.take(item)
            if context.cancelled:
                break
    return last.result


async def _exhaust(items: AsyncIterator[object], context: ToolContext) -> object:
    last = _Last(context)
    try:
        async for item in items:
            last.take(item)
    finally:
        if inspect.isasyncgen(items):
            await items.aclose()
    return last.result


async def follow(
    source: Observable[Any], take: Callable[[Any], None], scheduler: type[LoopScheduler] = LoopScheduler
) -> BaseException | None:
    """Subscribe, on the event loop, and wait for the end; the subscription is disposed when the wait is cancelled.

    Args:
        source: The observable. It may notify from any thread.
        take: Receives each item, in the event loop's thread. What it raises is the end.
        scheduler: The class of the scheduler that operators get.

    Returns:
        The error that it ends with.
    """
    loop, home = asyncio.get_running_loop(), threading.get_ident()
    # The error is its value: a future takes no StopIteration as an exception.
    done: asyncio.Future[BaseException | None] = loop.create_future()

    def on_loop(function: Callable[[Any], None], argument: Any) -> None:
        if threading.get_ident() == home:
            function(argument)
            return
        with contextlib.suppress(RuntimeError):  # the loop has closed: nothing waits any more
            loop.call_soon_threadsafe(function, argument)

    def next_item(item: Any) -> None:
        if done.done():
            return
        try:
            take(item)
        except Exception as error:
            end(error)

    def end(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(error)

    try:
        subscription = source.subscribe(
            partial(on_loop, next_item),
            partial(on_loop, end),
            partial(on_loop, end, None),
            scheduler=scheduler(loop, end),
        )
    except Exception as error:
        return error
    try:
        return await done
    finally:
        subscription.dispose()


class ToolSettings(TypedDict, total=False):
    """The settings of a tool.

    Those from ``strict`` to ``native`` are those of `ToolMeta`; docs/how-to/tools.md lists which provider supports
    which.

    Attributes:
        name: The name for the model; by default the function's name.
        description: When and how to use it; the docstring's unless it is given.
        timeout: Seconds until a call is given up; by default never.
        effect: ``write`` changes something, ``idempotent`` may be repeated, ``pure`` only looks and may start early.
            ``write`` by default.
        retries: How many more times a failed call is made; not for ``write``, which may have been half done.
        barrier: Whether a call runs alone: those before it end first, those after it wait.
        requires_approval: Whether a person must approve each call; the run pauses before it.
        max_output: Characters of a result that are sent to the model; ``None`` sends everything. See `ToolPolicy`.
        background: Whether a call goes on in the background, so that the model does not wait for it: ``True``, or after
            so many seconds; see `ToolPolicy`.
        at_end: ``wait``, ``wake`` or ``cancel``: what becomes of it when the model has ended its answer.
        strict: Whether the provider holds the model to the schema.
        cache_control: A mark: the provider may cache everything up to this tool.
        defer_loading: Whether the model sees the tool only after a tool search has found it.
        allowed_callers: The callers that may call it: ``direct``, the model itself; ``programmatic``, code that the
            model writes and the provider runs.
        input_examples: Arguments of calls, to show to the model.
        format: The model writes a text instead of a JSON object: ``"text"``, or a `Grammar`. The function then has one
            parameter, a ``str``.
        native: The type and the settings of a tool that a provider defines itself, such as ``{"type":
            "bash_20250124"}`` of Anthropic; they are sent in place of the description and the schema. Other providers
            refuse it.
        reconcile: A function, plain or coroutine, that finds out whether a call had its effect, from its idempotency
            key and its arguments. A recovered run calls it for a call with ``effect="write"`` whose end was not stored;
            it returns `Done`, `NotDone` or `Unknown`.
    """

    name: str | None
    description: str | None
    timeout: float | None
    effect: Effect
    retries: int
    barrier: bool
    requires_approval: bool
    max_output: int | None
    background: bool | float
    at_end: AtEnd
    strict: bool
    cache_control: CachePoint | None
    defer_loading: bool
    allowed_callers: Iterable[str]
    input_examples: Iterable[Mapping[str, Any]]
    format: TextFormat | None
    native: Mapping[str, Any] | None
    reconcile: Reconcile | None


@overload
def tool(function: Callable[P, B], /) -> FunctionTool[P, B]: ...
@overload
def tool(**settings: Unpack[ToolSettings]) -> Callable[[Callable[P, B]], FunctionTool[P, B]]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Unpack[ToolSettings]) -> Any:
    """Make a tool of a function or a method. It can still be called as before.

    The description for the model is made of the signature and the docstring: parameters with their types, defaults and
    meanings. The function may be a plain one, which runs in a thread; a coroutine function; a generator of either sort,
    whose last value is the result and those before it progress; or one that returns an observable, likewise. A
    parameter of type `ToolContext` is not the model's: it receives the call.

    Args:
        function: The function, where the decorator stands without parentheses.
        settings: Its name, time-out and so on; see `ToolSettings`.

    Raises:
        ConfigurationError: No tool can be made of it; the error names the parameter and the remedy.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.'''
    ...     return a + b
    >>> add.meta.name, add.meta.description, add(2, 3)
    ('add', 'Add two numbers.', 5)
    """
    check_names("a tool", settings, ToolSettings.__annotations__)
    policy = check_policy(ToolPolicy(**_those_of(ToolPolicy, settings)))
    settings["allowed_callers"] = _words(settings.get("allowed_callers", ()))
    settings["input_examples"] = tuple(map(dict, settings.get("input_examples", ())))

    def decorate_below(function: Callable[..., Any]) -> FunctionTool[..., Any]:
        return FunctionTool(function, settings, policy, _names_around())

    return decorate_below if function is None else FunctionTool(function, settings, policy, _names_around())


def _those_of(kind: type[Struct], settings: ToolSettings) -> dict[str, Any]:
    """The settings that are fields of a Struct."""
    return {name: value for name, value in settings.items() if name in kind.__struct_fields__}


def _words(words: Iterable[str]) -> tuple[str, ...]:
    """Some words, also where one was given by itself."""
    return (words,) if isinstance(words, str) else tuple(words)


def _check_examples(meta: ToolMeta, arguments: ArgumentDecoder) -> None:
    """Raise for an example that the tool itself would refuse."""
    for example in meta.input_examples:
        try:
            arguments.decode(msgspec.json.encode(example), ToolContext(tool=meta.name))
        except (InvalidArgumentError, TypeError) as error:
            raise ConfigurationError(
                f"tool {meta.name!r}: {example!r} among its input_examples does not fit: {error}"
            ) from error


def _function(function: Any) -> tuple[Callable[..., Any], bool]:
    """The function itself, and whether it is a method that will be given its object."""
    if isinstance(function, FunctionTool):
        raise ConfigurationError(f"{function!r} is a tool already: use @tool once")
    if isinstance(function, staticmethod):
        return cast("Callable[..., Any]", function.__func__), False
    if isinstance(function, classmethod):
        raise ConfigurationError(
            f"{cast('Any', function).__qualname__}: a class method cannot be a tool; make it a method or a function"
        )
    if not inspect.isroutine(function):
        raise ConfigurationError(f"{function!r} is not a function: put @tool on a function or a method that calls it")
    if function.__name__ == "<lambda>":
        raise ConfigurationError("a lambda cannot be a tool, since it has no types: write it as a function with def")
    if inspect.ismethod(function):
        return function, False
    # ``App.get_user`` was written in a class; ``f.<locals>.get_user`` in a function.
    scope = function.__qualname__.rpartition(".")[0]
    return function, bool(scope) and not scope.endswith("<locals>")


def _belongs_on_loop(function: Callable[..., Any], names: Mapping[str, Any]) -> bool:
    """Whether calling it does not hold the loop, since it only makes something that works later."""
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return True
    annotation = getattr(inspect.unwrap(function), "__annotations__", {}).get("return")
    try:
        returned = resolve(annotation, function, names)
    except Exception:
        return False  # it names what is not there yet, such as its own class: an ordinary value
    returned = typing.get_origin(returned) or returned
    return isinstance(returned, type) and issubclass(returned, Observable)


def _names_around() -> Mapping[str, Any]:
    """The local names where the decorator stands, for annotations that are written as text.

    Inside a class these are the names of its body and those of the function around it.
    """
    frame = sys._getframe(2)
    scopes: list[dict[str, Any]] = []
    while frame is not None and frame.f_locals is not frame.f_globals:
        scopes.append(dict(frame.f_locals))
        # Only a class body sees through to what is around it without a closure.
        frame = frame.f_back if "__qualname__" in frame.f_locals else None
    return ChainMap(*scopes)
