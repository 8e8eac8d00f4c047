"""What the protocols of user interfaces share: requests, runs that are watched, replies, messages, and streams."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import astuple, replace

from rxworker.decisions import Dismiss
from rxworker.errors import DecisionError, LocalProtocolError, RxWorkerError
from rxworker.events import Record
from rxworker.events.arguments import parse_arguments
from rxworker.events.pause import BACKGROUND, BackgroundCall, PauseState
from rxworker.messages import (
    Content,
    Conversation,
    Document,
    Image,
    Json,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.messages.lenient_json import encode_lenient
from rxworker.state import RunState
from rxworker.views.changes import Change, Scope, ViewPause, WaitingCall
from rxworker.views.tracker import Tracker
from rxworker.worker import Decision

Batches: TypeAlias = AsyncIterable[Sequence[Record]]
"""The records of a run, as a watcher receives them."""


class WatchedRun(Struct, frozen=True):
    """A run that a client watches from its first record.

    Attributes:
        batches: Its records.
        id: Its id.
        conversation_id: The id of its conversation.
        message_id: The client's message that it continues; ``None`` unless it was resumed.
        continues: Whether the client has that message, as far as the paused run has made it.
        earlier: The records of the runs that it continues, in order, for a client that replaces the whole message.
        query: The parameters in the address of the request.
    """

    batches: Batches
    id: str
    conversation_id: str
    message_id: str | None = None
    continues: bool = False
    earlier: tuple[Batches, ...] = ()
    query: Mapping[str, str] = {}


EncodeRun: TypeAlias = Callable[[WatchedRun], AsyncGenerator[bytes, None]]
"""Encodes a run as the body of a response."""


class RunRequest(Struct, frozen=True):
    """A client's request to start a run, or to resume a paused one.

    Attributes:
        conversation_id: The client's id for the conversation.
        messages: The user's messages after the last answer; may be empty.
        conversation: The whole conversation, as the client has it.
        replies: The client's replies to a paused run.
        results: The results of the client's tools after the last answer. Those that no run waits for are ignored.
        tools: The tools of the client.
        shared_state: The state that it shares with the worker; an empty one counts as absent.
        replaces: Whether the client replaces messages: it edits one, or regenerates an answer.
        message_id: The client's message that a resumed run continues.
        stream: Encodes the run for this client, if the encoding depends on the request.
    """

    conversation_id: str
    messages: tuple[Message, ...]
    conversation: Conversation = Conversation()
    replies: tuple[InterruptReply, ...] = ()
    results: tuple[ToolResult, ...] = ()
    tools: tuple[ToolMeta, ...] = ()
    shared_state: Json = None
    replaces: bool = False
    message_id: str | None = None
    stream: EncodeRun | None = None


A = TypeVar("A")


class InterruptReply(Struct, frozen=True):
    """A client's reply to a paused run.

    Attributes:
        run_id: The paused run.
        call_id: The model's id of the call; empty if the run was paused at the end of a turn.
        decision: The decision about the call.
        message: A message for the model, at the end of a turn.
        dismiss: Set at the end of a turn if the run is not to go on.
    """

    run_id: str = field(name="run")
    call_id: str = ""
    decision: Decision | None = None
    message: Message | None = None
    dismiss: Dismiss | None = None


def interrupt_id(run_id: str, call_id: str) -> str:
    """The id of an interrupt: a call, or the end of a turn, that a paused run waits at.

    Calls have their `PendingCalls.ids` here.

    >>> interrupt_id("run-1", "call_1")
    'run-1:call_1'
    """
    return f"{run_id}:{call_id}"


def asked_by(run_id: str, background: BackgroundCall) -> ViewPause:
    """What a call in the background needs a decision about while its run goes on, as a pause for it alone."""
    tree = PauseState(BACKGROUND, (), (), background=(background,)).tree
    pending = [WaitingCall(*astuple(node), id=node.name) for node in tree if node.needs_decision]
    return ViewPause(run_id, BACKGROUND, "", tuple(pending))


def split_interrupt(name: str) -> tuple[str, str]:
    """The run and the call of an interrupt id.

    Raises:
        DecisionError: The id has another form.

    >>> split_interrupt("run-1:call_1")
    ('run-1', 'call_1')
    """
    run, colon, call_id = name.partition(":")
    if not colon or not run:
        raise DecisionError(
            f"{name!r:.80} is not an interrupt of this server: send back the unchanged id of the paused run"
        )
    return run, call_id


def decisions_of(replies: Iterable[InterruptReply]) -> dict[str, Decision]:
    """The decisions of replies, by the ids of the calls, as ``worker.resume`` takes them.

    Raises:
        DecisionError: Two different replies are about one call.

    >>> from rxworker import Approve
    >>> decisions_of([InterruptReply("run-1", "call_1", Approve()), InterruptReply("run-1")])
    {'call_1': Approve(input=None)}
    """
    decisions: dict[str, Decision] = {}
    for reply in replies:
        if reply.decision is None:
            continue
        if decisions.setdefault(reply.call_id, reply.decision) != reply.decision:
            raise DecisionError(f"there are two different answers about the call {reply.call_id!r}: send one")
    return decisions


def decode_request(data: bytes, kind: type[A], name: str) -> A:
    """Decode the JSON of a request.

    Args:
        data: The body.
        kind: The type of the request.
        name: The name of the request, for the error.

    Raises:
        LocalProtocolError: It is no such request.

    >>> decode_request(b"[1, 2]", list[int], "list of numbers")
    [1, 2]
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LocalProtocolError(f"this is not a {name}: {error}") from error


def converted(value: object, kind: type[A], problem: str) -> A:
    """A member of a request as a type.

    Args:
        value: The decoded JSON.
        kind: The type.
        problem: What is wrong if it is not of the type, for the error.

    Raises:
        LocalProtocolError: It is not.

    >>> converted([1, 2], list[int], "not numbers")
    [1, 2]
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise LocalProtocolError(f"{problem}: {error}") from error


def tool_result(call_id: str, content: Iterable[Content], *, is_error: bool = False, name: str = "") -> ToolResult:
    """The result of a client's tool: a text, if its content has nothing else.

    >>> tool_result("call_1", [Text("sun"), Text("ny")]).content
    'sunny'
    """
    blocks = tuple(block for block in content if isinstance(block, Text | Image | Document))
    result = ToolResult(call_id, blocks, is_error, name)
    is_text = all(isinstance(block, Text) for block in blocks)
    return replace(result, content=result.text) if is_text else result


def tool_meta(name: str, description: str, parameters: JsonObject | None) -> ToolMeta:
    """The description of a client's tool; without parameters it takes an empty object.

    >>> tool_meta("open_tab", "Open a tab.", None).input_schema["properties"]
    {}
    """
    return ToolMeta(name, description, parameters or {"type": "object", "properties": {}})


def arguments_of(given: JsonObject | str) -> str:
    """The arguments of a call as text.

    >>> arguments_of({"city": "Kyoto"}), arguments_of("free text")
    ('{"city":"Kyoto"}', 'free text')
    """
    return given if isinstance(given, str) else encode_lenient(given).decode()


class CallIds:
    """The shown ids of calls: ``~2`` is appended for the second call of an id.

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


def latest_from(messages: Sequence[Message]) -> int:
    """The place from which on all messages are of the user."""
    return next((at for at in range(len(messages), 0, -1) if messages[at - 1].role != "user"), 0)


def function_call(call_id: str, call: ToolCall) -> JsonObject:
    """A call of a tool as Chat Completions and AG-UI have it.

    >>> function_call("1", ToolCall("1", "look", {}))
    {'id': '1', 'type': 'function', 'function': {'name': 'look', 'arguments': '{}'}}
    """
    function: JsonObject = {"name": call.name, "arguments": arguments_of(call.input)}
    return {"id": call_id, "type": "function", "function": function}


class CalledFunction(Struct, frozen=True):
    """The function of a `FunctionCall`."""

    name: str
    arguments: str = ""


class FunctionCall(Struct, frozen=True):
    """A call of a tool as Chat Completions and AG-UI have it; `function_call` writes one."""

    id: str
    function: CalledFunction

    @property
    def call(self) -> ToolCall:
        """The call.

        >>> FunctionCall("1", CalledFunction("look", "{}")).call.input
        {}
        """
        return ToolCall(self.id, self.function.name, parse_arguments(self.function.arguments))


class MessageCollector:
    """Collects messages one by one. Adjacent tool results become one message.

    >>> collector = MessageCollector()
    >>> collector.add("user", [Text("hi")])
    >>> conversation, latest, results = collector.finish()
    >>> latest[0].text
    'hi'
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._results: list[ToolResult] = []
        self._system: list[str] = []

    def add(self, role: str, content: list[Content]) -> None:
        """Add a message, unless it is empty."""
        self._flush()
        if role == "system":
            text = "".join(block.text for block in content if isinstance(block, Text))
            if self._messages:
                self._messages.append(Message.system(text))
            else:
                self._system.append(text)
        elif content:
            self._messages.append(Message("user" if role == "user" else "assistant", tuple(content)))

    def add_result(self, result: ToolResult) -> None:
        """Add the result of a tool."""
        self._results.append(result)

    def finish(self) -> tuple[Conversation, tuple[Message, ...], tuple[ToolResult, ...]]:
        """The whole conversation, and the user's messages and the results of tools after the last answer."""
        self._flush()
        end = latest_from(self._messages)
        latest: list[Message] = []
        results: list[ToolResult] = []
        for message in self._messages[end:]:
            if message.tool_results:
                results += message.tool_results
                latest.clear()
            else:
                latest.append(message)
        system = "\n\n".join(self._system) or None
        return Conversation(tuple(self._messages), system), tuple(latest), tuple(results)

    def _flush(self) -> None:
        if self._results:
            self._messages.append(Message("user", tuple(self._results)))
            self._results = []


AMBIGUOUS = re.compile(r"[\\\s\x00-\x1f\x7f]")
UNICAST = IPv6Network("2000::/3")
INSIDE_ENDS = (".localhost", ".internal", ".local")
NUMBER = re.compile(r"(0x[0-9a-f]*|[0-9]+)(\.(0x[0-9a-f]*|[0-9]+))*")
INSTEAD = "send its bytes, as a data: address or in base64"


def media(media_type: str, *, data: str = "", url: str = "", title: str | None = None) -> Image | Document:
    """An image or a document, from base64 or from a URL, which may be a data URL.

    Raises:
        LocalProtocolError: It is neither, or as for `check_content`.

    >>> media("image/png", url="data:image/png;base64,AAAA")
    Image(media_type='image/png', data='AAAA', url=None, echo=None, file_id=None)
    """
    if url.startswith("data:"):
        head, comma, data = url.removeprefix("data:").partition(",")
        named, _, encoding = head.partition(";")
        if not comma or encoding.rpartition(";")[2] != "base64":
            raise LocalProtocolError("a data: address is read where it holds base64: send that")
        media_type, url = media_type or named, ""
    if media_type.startswith("image/"):
        return check_content(Image(media_type, data or None, url or None))
    return check_content(Document(media_type or "application/pdf", data or None, url or None, title))


C = TypeVar("C", bound=Text | Image | Document)


def check_content(block: C) -> C:
    """Check content that a client sends, and return it. Every door has this check.

    Who fetches an address may be inside a network that the client is not: a provider of one's own, or a proxy. So an
    address has to be public.

    Raises:
        LocalProtocolError: A file has neither bytes nor an address, or an address that is not public, or it names a
            file of the provider, which may be another user's; or a block has what only a provider may give.

    >>> check_content(Image("image/png", url="http://169.254.169.254/latest"))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    rxworker.errors.LocalProtocolError: a file at '169.254.169.254' is not read, which is not a public address: ...
    More: rxworker docs reference/protocols
    """
    if block.echo is not None:
        raise LocalProtocolError("echo: only what a provider has sent has it: leave it out")
    if isinstance(block, Text):
        if block.citations:
            raise LocalProtocolError("citations: only an answer has them: leave them out")
        return block
    if block.file_id is not None:
        raise LocalProtocolError(
            f"file_id: a file of the provider may be another user's: {INSTEAD}", page="reference/web-server"
        )
    if block.media_type.startswith(("audio/", "video/")):
        raise LocalProtocolError(f"{block.media_type} is not read: send text, pictures or documents")
    if block.url:
        _check_address(block.url)
    elif not block.data:
        raise LocalProtocolError("a file has neither an address nor bytes: send one of them")
    return block


def _check_address(url: str) -> None:
    if not url.startswith(("https://", "http://")):
        raise LocalProtocolError(f"a file must be at an https: or data: address, not {url[:40]!r}")
    if AMBIGUOUS.search(url):
        raise LocalProtocolError(
            f"a file at {url[:80]!r} is not read: its address has a backslash, a space or a line break, which not "
            "every program reads alike"
        )
    try:
        # As who fetches it encodes it: other full stops are dots then, and characters that are not shown are left out.
        host = (urlsplit(url).hostname or "").encode("idna").decode().rstrip(".").lower()
    except ValueError:
        host = ""
    address = None
    with suppress(ValueError):
        address = ip_address(host)
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    # A name without a dot is one of a network of its own.
    is_inside = "%" in host or host.endswith(INSIDE_ENDS) or (address is None and "." not in host)
    # An address in another notation, such as 2852039166, is read as one by who fetches it.
    is_odd = address is None and NUMBER.fullmatch(host) is not None
    if is_inside or is_odd or (address is not None and not _is_public(address)):
        raise LocalProtocolError(f"a file at {host[:80]!r} is not read, which is not a public address: {INSTEAD}")


def _is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is one of a single computer in the Internet.

    Of version 6 only these are; others may contain an address of version 4.
    """
    is_unicast = isinstance(address, IPv4Address) or address in UNICAST
    return is_unicast and address.is_global and not address.is_multicast


def type_name(event: object) -> str:
    """The name of an event's type: its tag, or the name of its class if it has no tag.

    >>> from rxworker.events import TurnStop
    >>> type_name(TurnStop())
    'turn_stop'
    """
    tag = event.__struct_config__.tag if isinstance(event, Struct) else None
    return tag if isinstance(tag, str) else type(event).__name__


def scope_of(change: Change) -> Scope:
    """The scope of a change: that of its block, its own, or the run itself.

    >>> from rxworker.views.changes import ViewCut
    >>> scope_of(ViewCut("gone")).id
    ''
    """
    return getattr(getattr(change, "block", change), "scope", _RUN)


_RUN = Scope()


Wire: TypeAlias = dict[str, object]
"""An event of a protocol as it goes over the wire; its values have a JSON form."""


def tagged(kind: str, **members: object) -> Wire:
    """An event of a type, by the names on the wire. A member that is ``None`` is left out.

    >>> tagged("text-end", id="text-1", providerMetadata=None)
    {'type': 'text-end', 'id': 'text-1'}
    """
    return {"type": kind, **present(**members)}


def present(**members: object) -> Wire:
    """The members that are not ``None``.

    >>> present(id="text-1", title=None)
    {'id': 'text-1'}
    """
    return {name: value for name, value in members.items() if value is not None}


def data_line(value: object) -> bytes:
    r"""The value as a frame of server-sent events.

    >>> data_line({"type": "x"})
    b'data: {"type":"x"}\n\n'
    """
    return b"data: " + encode_lenient(value) + b"\n\n"


DONE = b"data: [DONE]\n\n"
"""The last frame of a response to a client of ``useChat`` or of OpenAI's APIs."""


E = TypeVar("E")


class RecordEncoder(ABC, Generic[E]):
    """Encodes the records of one run: what the changes in its view are in a protocol. A subclass encodes a change."""

    def __init__(self) -> None:
        self._tracker = Tracker()

    @property
    def seq(self) -> int:
        """The number of the last record."""
        return self._tracker.seq

    @property
    def is_over(self) -> bool:
        """Whether all of the run was encoded."""
        return self._tracker.is_over

    def feed(self, record: Record) -> list[E]:
        """Encode a record, which may give nothing."""
        return self._encoded(self._tracker.feed(record))

    def catch_up(self, state: RunState, run_id: str) -> list[E]:
        """Bring a late watcher to this state. The records after it come next.

        Args:
            state: The state after the records so far.
            run_id: The run's id.
        """
        return self._encoded(self._tracker.catch_up(state, run_id))

    def close(self, reason: str) -> list[E]:
        """Close what is open, and report the reason. Returns nothing if the run has already ended."""
        return self._encoded(self._tracker.close(reason))

    def _encoded(self, changes: Iterable[Change], /) -> list[E]:
        return [each for change in changes for each in self._encode(change)]

    @abstractmethod
    def _encode(self, change: Change) -> Iterable[E]:
        """Encode one change."""


ENDED = "the records stopped before the run had ended"


async def pump(
    batches: Batches, feed: Callable[[Record], list[E]], close: Callable[[str], list[E]]
) -> AsyncGenerator[list[E], None]:
    """Encode batches of records, and close at the end what is still open.

    A watch of a failed run ends with the error of the run, which the last record has already reported. Any other error
    is passed to ``close`` as the reason. Closing the generator ends the watch.

    Args:
        batches: The records.
        feed: Encodes a record.
        close: Returns the last events, for a reason.
    """
    reason = ENDED
    source = aiter(batches)
    try:
        async for batch in source:
            if events := [event for record in batch for event in feed(record)]:
                yield events
    except RxWorkerError as error:
        reason = error.message
    except Exception as error:  # its message may be confidential
        reason = f"{ENDED}: {type(error).__name__}"
    finally:
        if (leave := getattr(source, "aclose", None)) is not None:
            await leave()
    if last := close(reason):
        yield last
