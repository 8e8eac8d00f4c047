"""What the protocols of user interfaces share: replies to a paused run, messages of a client, and the stream of a response."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from rxworker.errors import LocalProtocolError, RxWorkerError
from rxworker.events import Record
from rxworker.messages import (
    Content,
    Conversation,
    Document,
    Image,
    Json,
    Message,
    Text,
    ToolResult,
)
from rxworker.messages.lenient_json import encode_lenient
from rxworker.worker import Decision


class InterruptReply(Struct, frozen=True):
    """A client's answer to a paused run.

    Attributes:
        run: The run that was paused.
        call_id: The call that it is about, by the model's id; empty where the run was paused at the end of a turn.
        decision: What to do with the call.
        message: What to tell the model, at the end of a turn.
    """

    run: str
    call_id: str = ""
    decision: Decision | None = None
    message: Message | None = None


def interrupt_id(run: str, call_id: str) -> str:
    """The name of what a run waits for.

    >>> interrupt_id("run-1", "call_1")
    'run-1:call_1'
    """
    return f"{run}:{call_id}"


def split_interrupt(name: str) -> tuple[str, str]:
    """The run and the call that a name stands for.

    Raises:
        LocalProtocolError: It is none of ours.

    >>> split_interrupt("run-1:call_1")
    ('run-1', 'call_1')
    """
    run, colon, call_id = name.partition(":")
    if not colon or not run:
        raise LocalProtocolError(
            f"{name!r} is no interrupt of ours: send back the id that the paused run gave, as it was"
        )
    return run, call_id


def decisions_of(replies: Iterable[InterruptReply]) -> dict[str, Decision]:
    """What was decided, by the calls' ids, as ``worker.resume`` takes it.

    >>> from rxworker.worker import Approve
    >>> decisions_of([InterruptReply("run-1", "call_1", Approve()), InterruptReply("run-1")])
    {'call_1': Approve(input=None)}
    """
    return {
        reply.call_id: reply.decision
        for reply in replies
        if reply.call_id and reply.decision is not None
    }


class CallIds:
    """The ids of calls as they are shown: the second call of an id has ``~2`` behind it.

    >>> ids = CallIds()
    >>> ids.of_call("x"), ids.of_call("x"), ids.of_result("x")
    ('x', 'x~2', 'x')
    """

    def __init__(self) -> None:
        self._used: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[str]] = defaultdict(deque)

    def of_call(self, native: str) -> str:
        """The id under which the next call of this id is shown."""
        self._used[native] += 1
        number = self._used[native]
        shown = native if number == 1 else f"{native}~{number}"
        self._waiting[native].append(shown)
        return shown

    def of_result(self, native: str) -> str:
        """The shown id of the first call of this id that has no result."""
        waiting = self._waiting[native]
        return waiting.popleft() if waiting else native


class Said(Struct, frozen=True):
    """What a client sends of a conversation.

    Attributes:
        conversation: All of it.
        latest: What the user said last, behind the last answer.
    """

    conversation: Conversation
    latest: tuple[Message, ...]


class Gathering:
    """Gathers messages one by one: results of tools side by side are one message.

    >>> gathering = Gathering()
    >>> gathering.say("user", [Text("hi")])
    >>> gathering.said.latest[0].text
    'hi'
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._results: list[ToolResult] = []
        self._system: list[str] = []

    def say(self, role: str, content: list[Content]) -> None:
        """A message; one without content says nothing."""
        self._settle()
        if role == "system":
            text = "".join(block.text for block in content if isinstance(block, Text))
            if self._messages:
                self._messages.append(Message.system(text))
            else:
                self._system.append(text)
        elif content:
            self._messages.append(
                Message("user" if role == "user" else "assistant", tuple(content))
            )

    def answer(self, result: ToolResult) -> None:
        """The result of a tool."""
        self._results.append(result)

    @property
    def said(self) -> Said:
        """All of it."""
        self._settle()
        latest: list[Message] = []
        for message in reversed(self._messages):
            if message.role != "user" or message.tool_results:
                break
            latest.append(message)
        system = "\n\n".join(self._system) or None
        return Said(Conversation(tuple(self._messages), system), tuple(reversed(latest)))

    def _settle(self) -> None:
        if self._results:
            self._messages.append(Message("user", tuple(self._results)))
            self._results = []


SCHEMES = ("https://", "http://")


def media(
    media_type: str, *, data: str = "", url: str = "", title: str | None = None
) -> Image | Document:
    """A picture or a document, by its bytes in base64 or its address; the address may hold the bytes.

    Raises:
        LocalProtocolError: It is neither a picture nor a document, or is somewhere a provider cannot fetch it from.

    >>> media("image/png", url="data:image/png;base64,AAAA")
    Image(media_type='image/png', data='AAAA', url=None, echo=None, file_id=None)
    """
    if url.startswith("data:"):
        head, comma, data = url.removeprefix("data:").partition(",")
        named, _, encoding = head.partition(";")
        if not comma or encoding.rpartition(";")[2] != "base64":
            raise LocalProtocolError("a data: address is read where it holds base64: send that")
        media_type, url = media_type or named, ""
    elif url and not url.startswith(SCHEMES):
        raise LocalProtocolError(f"a file must be at an https: or data: address, not {url[:40]!r}")
    if not data and not url:
        raise LocalProtocolError("a file has neither an address nor bytes: send one of them")
    if media_type.startswith(("audio/", "video/")):
        raise LocalProtocolError(f"{media_type} is not read: send text, pictures or documents")
    if media_type.startswith("image/"):
        return Image(media_type, data or None, url or None)
    return Document(media_type or "application/pdf", data or None, url or None, title)


def type_name(event: object) -> str:
    """The name of an event's type: its tag, or for an event without one the name of its class.

    >>> from rxworker.events import TurnStop
    >>> type_name(TurnStop())
    'turn_stop'
    """
    tag = event.__struct_config__.tag if isinstance(event, Struct) else None
    return tag if isinstance(tag, str) else type(event).__name__


def data_line(value: Struct | Json) -> bytes:
    r"""The value as a frame.

    >>> data_line({"type": "x"})
    b'data: {"type":"x"}\n\n'
    """
    return b"data: " + encode_lenient(value) + b"\n\n"


E = TypeVar("E")

ENDED = "the records stopped before the run had ended"


async def pump(
    batches: AsyncIterable[Sequence[Record]],
    feed: Callable[[Record], list[E]],
    close: Callable[[str], list[E]],
) -> AsyncGenerator[list[E], None]:
    """The events of each batch that makes any, and at the end those that close what is open.

    A run that failed ends its watch with what ended it. Its last record has told so already; what ends a watch otherwise is
    told as the reason. Whoever stops reading ends the watch.

    Args:
        batches: The records.
        feed: Makes the events of a record.
        close: Makes the last events.
    """
    reason = ENDED
    source = aiter(batches)
    try:
        async for batch in source:
            events = [event for record in batch for event in feed(record)]
            if events:
                yield events
    except RxWorkerError as error:
        reason = error.message
    except Exception as error:  # what it says may be meant for nobody outside
        reason = f"{ENDED}: {type(error).__name__}"
    finally:
        leave = getattr(source, "aclose", None)
        if leave is not None:
            await leave()
    last = close(reason)
    if last:
        yield last
