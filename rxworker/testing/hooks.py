"""Hooks for tests: a stub that returns given verdicts and records what it saw, and contexts to call a hook with.

stub = HookStub("before_tool_call", Skip("no"))
worker = Worker(model, tools=[delete], hooks=[stub])
...
assert stub.contexts[0].tool_name == "delete"
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast

from rxworker.errors import RunAbortedError, RunCancelledError
from rxworker.events import ConversationReplace, HookMessage, MessageAdd, SharedStateChange
from rxworker.hooks import (
    AbortContext,
    Hook,
    HookContext,
    HookPoint,
    MessageSendContext,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
    Verdict,
)
from rxworker.hooks.base import HookSettings
from rxworker.hooks.context import CallTool
from rxworker.hub.hub import reporters
from rxworker.messages import Conversation, Json, Message, ToolCall, ToolMeta, ToolResult
from rxworker.messages.settings import awaited
from rxworker.tools import ClientTool, SharedState, Tool, Toolbox


@contextmanager
def raise_from_watchers() -> Generator[None, None, None]:
    """Raise, at the end of the block, the exceptions of watchers of runs within it.

    A watcher that raises is detached, and the run goes on: an ``assert`` in a subscriber fails no test by itself. This
    holds for all runs of the process while the block runs. As a fixture of pytest, for every test::

        @pytest.fixture(autouse=True)
        def watchers_do_not_raise():
            with raise_from_watchers():
                yield

    Raises:
        BaseException: The exception of a watcher; an exception group of several. If the block itself raises, that is
            raised, with a note for each watcher.

    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> import asyncio
    >>> async def main() -> None:
    ...     run = Worker(ScriptedModel(["Hello!"])).run("Hi")
    ...     def check(record: object) -> None:
    ...         assert record is None, "a record came"
    ...     run.subscribe(check)
    ...     await run
    >>> with raise_from_watchers():
    ...     asyncio.run(main())
    Traceback (most recent call last):
    ...
    AssertionError: a record came
    """
    raised: list[tuple[str, BaseException]] = []

    def report(name: str, error: BaseException) -> None:
        raised.append((name, error))

    reporters.append(report)
    try:
        yield
    except BaseException as error:
        for name, other in raised:
            if other is not error:
                error.add_note(f"watcher {name} has raised {other!r}")
        raise
    finally:
        reporters.remove(report)
    errors = [error for _, error in raised]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("watchers have raised", errors)


async def NEVER(_: object) -> None:  # noqa: N802 - given as a value
    """An answer of a `HookStub` that never arrives."""
    await asyncio.get_running_loop().create_future()


HookAnswer: TypeAlias = (
    Verdict | Exception | Callable[[Any], "Verdict | Awaitable[Verdict | None] | None"] | str | int | None
)
"""An answer of a `HookStub` that may be scripted."""


class HookStub(Hook[Any]):
    """A hook that returns the given verdicts, one each time, and records its contexts.

    After the last it returns ``None``.

    Args:
        point: Its hook point.
        answers: A verdict, ``None``, an exception to raise, `NEVER` to hang, or a function of the context. Anything
            else is returned unchanged, to test invalid verdicts.
        settings: Those of any hook; it is called ``stub`` where no name is given.

    Attributes:
        contexts: The contexts that it received, in order, with the later changes of other hooks and the worker,
            unless it has a time-out.
        contents: The content of each, at the time when the hook ran.
        cancelled: How often it was cancelled while an answer was awaited.

    >>> stub = HookStub("before_tool_call")
    >>> asyncio.run(stub(call_context("read", path="a")))
    >>> stub.contents
    ['{"path":"a"}']
    """

    def __init__(self, point: HookPoint | str, *answers: HookAnswer, **settings: Unpack[HookSettings]) -> None:
        settings.setdefault("name", "stub")
        super().__init__(self._reply, point, **settings)
        self.contexts: list[Any] = []
        self.contents: list[str] = []
        self.cancelled = 0
        self._answers: Iterator[HookAnswer] = iter(answers)

    @property
    def call_count(self) -> int:
        """How often it was called."""
        return len(self.contexts)

    async def _reply(self, context: HookContext) -> Any:
        self.contexts.append(context)
        self.contents.append(context.content)
        answer = next(self._answers, None)
        if isinstance(answer, Exception):
            raise answer
        if not callable(answer) or isinstance(answer, type):
            return answer
        try:
            return await awaited(answer(context))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


class ContextFields(TypedDict, total=False):
    """The optional fields of a context.

    Attributes:
        conversation: The conversation so far.
        received: A list that receives the hook's messages to the watchers and to the conversation, and its changes of
            the shared state.
        shared_state: The state that tools and hooks share with user interfaces.
        variables: Shared by the hooks and tools of a run.
        workspace: The folder that the run works in.
        labels: The labels of the run.
        toolbox: The worker's tools.
        call_tool: Runs one of them.
    """

    conversation: Conversation
    received: (
        list[HookMessage | MessageAdd | ConversationReplace]
        | list[HookMessage | MessageAdd | ConversationReplace | SharedStateChange]
    )
    shared_state: Json
    variables: dict[str, object]
    workspace: Path
    labels: Mapping[str, str]
    toolbox: Toolbox
    call_tool: CallTool


def _stub_tool(name: str) -> Tool:
    """A tool of which nothing is known but its name."""
    return ClientTool(ToolMeta(name, "", {"type": "object"}))


def send_context(*messages: Message | str, **fields: Unpack[ContextFields]) -> MessageSendContext:
    """The context of a hook at ``on_message_send``, after these messages; a text is the user's.

    >>> send_context("hello").content
    'hello'
    """
    return MessageSendContext(**_common(messages, fields))


def call_context(
    tool: str, call_id: str = "call_1", /, fields: ContextFields | None = None, **arguments: Any
) -> ToolCallContext:
    """The context of a hook at ``before_tool_call``.

    >>> call_context("read", path="a").tool_args
    {'path': 'a'}
    """
    return ToolCallContext(call=ToolCall(call_id, tool, arguments), tool=_stub_tool(tool), **_common((), fields or {}))


def result_context(
    tool: str, result: str, /, fields: ContextFields | None = None, is_error: bool = False, **arguments: Any
) -> ToolResultContext:
    """The context of a hook at ``after_tool_call``.

    >>> result_context("read", "nothing in it", path="a").content
    'nothing in it'
    """
    call = ToolCall("call_1", tool, arguments)
    return ToolResultContext(
        call=call,
        result=ToolResult(call.id, result, is_error, tool),
        tool=_stub_tool(tool),
        **_common((), fields or {}),
    )


def end_context(text: str, **fields: Unpack[ContextFields]) -> TurnEndContext:
    """The context of a hook at ``on_turn_end``, after this answer.

    >>> end_context("Done.").text
    'Done.'
    """
    return TurnEndContext(**_common((Message.assistant(text),), fields))


def abort_context(
    cause: Literal["cancel", "error", "abort", "limit"] = "cancel",
    reason: str = "cancelled",
    **fields: Unpack[ContextFields],
) -> AbortContext:
    """The context of a hook at ``on_abort``.

    >>> abort_context("abort", "no").reason
    'no'
    """
    error = RunAbortedError(reason) if cause == "abort" else RunCancelledError(reason)
    return AbortContext(cause=cause, reason=reason, error=error, **_common((), fields))


def _common(messages: tuple[Message | str, ...], fields: ContextFields) -> Any:
    """The fields of every context. Their types were checked before."""
    all_messages = (Message.user(m) if isinstance(m, str) else m for m in messages)
    own = ("conversation", "received", "shared_state")
    rest = {key: value for key, value in fields.items() if key not in own}
    received = cast("list[Any]", fields.get("received", []))
    return {
        "conversation": fields.get("conversation", Conversation()).add(*all_messages),
        "emit": received.append,
        "shared": SharedState(fields.get("shared_state"), received.append),
        "run_id": "run-test",
        "turn": 1,
        **rest,
    }
