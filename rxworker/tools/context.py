"""The call of a running tool, and its reports while it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar

import msgspec
from msgspec import Struct

from rxworker.errors import ConfigurationError
from rxworker.events import Custom, CustomEvent, Record
from rxworker.events.form import check_form
from rxworker.events.pause import Begun, Question
from rxworker.messages import Json
from rxworker.tools.custom_types import to_json_value
from rxworker.tools.shared_state import SharedState

A = TypeVar("A")


class Progress(Struct, Generic[A], frozen=True):
    """Wraps a value that a tool yields, to mark it as progress and not the result.

    Attributes:
        value: Anything that has a JSON form.
    """

    value: A


class QuestionError(
    BaseException
):  # as `asyncio.CancelledError`: no ``except Exception`` of a tool takes it for a failure
    """Leaves a tool that waits for the answer to a question.

    Args:
        begun: The question, and how the tool goes on.
    """

    def __init__(self, begun: Begun) -> None:
        super().__init__(str(begun.question))
        self.begun = begun


class ToolContext:
    """One call, as the tool that serves it sees it. Made by the loop of a run.

    A tool declares a parameter of this type to receive it. The model does not see that parameter.

    Attributes:
        call_id: The call's id.
        tool: The name it was called by.
        variables: Values shared by the hooks and tools of a run.
        cancelled: Whether the call was cancelled. A tool in a thread may check it from time to time, and stop.
        begun: How the call goes on, if the tool has begun it before, with the answer to its question; ``None``: it
            starts.
        can_ask: Whether a person can answer a question of the tool: the call is one of a run that can pause.

    >>> received: list[object] = []
    >>> context = ToolContext("call_1", "copy", report=received.append)
    >>> context.progress({"files": 3})
    >>> received
    [{'files': 3}]
    """

    __slots__ = (
        "_key",
        "_relay",
        "_report",
        "_shared",
        "begun",
        "call_id",
        "can_ask",
        "cancelled",
        "tool",
        "variables",
    )

    def __init__(
        self,
        call_id: str = "",
        tool: str = "",
        *,
        idempotency_key: str | None = None,
        variables: dict[str, Any] | None = None,
        report: Callable[[Json | Custom], None] | None = None,
        relay: Callable[[Record], None] | None = None,
        shared: SharedState | None = None,
    ) -> None:
        self.call_id = call_id
        self.tool = tool
        self._key = idempotency_key
        self.variables: dict[str, Any] = {} if variables is None else variables
        self.cancelled = False
        self.begun: Begun | None = None
        self.can_ask = False
        self._report = report
        self._relay = relay
        self._shared = SharedState() if shared is None else shared

    @property
    def idempotency_key(self) -> str:
        """The same whenever this very call is made again, for example after a crash.

        For services that take such a key.
        """
        return self.call_id if self._key is None else self._key

    def ask(self, question: Question, state: Json = None) -> NoReturn:
        """Leave the tool with a question.

        The run pauses until a person has answered it, and calls the tool again with the answer in ``begun.reply``.

        Check ``can_ask`` before. The answer may come in another process.

        Args:
            question: The question.
            state: What the tool needs to go on, in ``begun.state``.

        Raises:
            QuestionError: Otherwise. Let it pass.
            ConfigurationError: The schema describes no form that can be shown.
        """
        if question.schema is not None and (problem := check_form(question.schema)):
            raise ConfigurationError(
                f"the schema of the question is not a form: {problem}. Give an object of texts, numbers, booleans and "
                "choices"
            )
        raise QuestionError(Begun(state, question))

    @property
    def is_left(self) -> bool:
        """Whether a call that is cancelled goes on in another process, which has what was kept.

        What the tool has begun elsewhere is left as it is.
        """
        return False

    async def keep(self, state: Json, progress: object = None) -> None:
        """Store what the tool needs to go on with this call.

        A process that recovers the run calls it with ``begun.state``, instead of from the start.

        Args:
            state: What it needs. No watcher receives it, unless the run pauses at the call.
            progress: Progress, which is reported with it.
        """
        del state
        self.progress(progress)

    def progress(self, value: object) -> None:
        """Report progress to the watchers. The model does not see it.

        It may be called from any thread. After the call has ended it does nothing.

        Args:
            value: Anything that has a JSON form.

        Raises:
            TypeError: It has none.
        """
        report = self._report
        if self.cancelled or report is None:
            return
        try:
            # A copy, and valid JSON: a later change of the value by the tool must not change an event that was emitted.
            shown: Json = msgspec.json.decode(msgspec.json.encode(to_json_value(value)))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"progress of type {type(value).__qualname__} has no JSON form: {error}") from error
        report(shown)

    def emit(self, event: CustomEvent) -> None:
        """Record an event of the application. The model does not see it.

        It may be called from any thread. After the call has ended it does nothing.

        Raises:
            ConfigurationError: Its class has no ``tag``, or a field has no JSON form.
        """
        custom = event.custom
        if not self.cancelled and self._report is not None:
            self._report(custom)

    @property
    def shared_state(self) -> Json:
        """A copy of the state that the tools and hooks of the run share with user interfaces.

        ``None`` if there is none.
        """
        return self._shared.value

    def set_shared_state(self, value: object, path: str = "") -> None:
        """Set the shared state, or a place in it; watchers see it at once. It may be called from any thread.

        After the call has ended it does nothing.

        Args:
            value: Anything that has a JSON form.
            path: The place, as a JSON Pointer such as ``/steps/0``; ``/steps/-`` adds to an array. All that is around
                it must exist.

        Raises:
            LocalProtocolError: The value has no JSON form or is longer than `MAX_SHARED_STATE`, or there is no such
                place.

        >>> context = ToolContext()
        >>> context.set_shared_state({"steps": []})
        >>> context.set_shared_state("plan", "/steps/-")
        >>> context.shared_state
        {'steps': ['plan']}
        """
        if not self.cancelled:
            self._shared.set(to_json_value(value), path)

    def remove_shared_state(self, path: str) -> None:
        """Remove a member of an object of the shared state, or an item of an array.

        Raises:
            LocalProtocolError: There is no such place.
        """
        if not self.cancelled:
            self._shared.remove(path)

    def relay(self, record: Record) -> None:
        """Show the watchers a record of a run that this call has begun. They see it under the call's id.

        It belongs to the event loop's thread. After the call has ended it does nothing.
        """
        if not self.cancelled and self._relay is not None:
            self._relay(record)

    def close(self) -> None:
        """The call has ended; the runner calls it."""
        self.cancelled = True
