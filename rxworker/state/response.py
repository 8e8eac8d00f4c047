"""The state of a response, and the message that it makes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import BlockAbort, BlockStart, Error, ResponseEvent, ResponseStatus, Status, Usage
from rxworker.events.kinds import BLOCK_EVENTS, TEXTS, Deltas
from rxworker.messages import Content, JsonObject, Message, ServerToolCall, ServerToolResult, StopReason
from rxworker.state.block import BlockState, OpenBlocks, Pieces, content_of, step_block, step_texts

# Looking up a member of an Enum costs as much as creating a small object.
STARTED = ResponseStatus.STARTED
COMPLETED = ResponseStatus.COMPLETED


class ResponseState(Struct, frozen=True):
    """A response so far. A value: a step makes another.

    Attributes:
        status: The status; ``None`` before the first.
        usage: The last snapshot of what it took.
        retracted: What its earlier starts took, as far as ``usage`` does not have that.
        stop_reason: Why it ended.
        response_id: The provider's name for it; the last one, where it changes.
        model: The model that answers.
        provider: The name of the provider whose answer is used, if several received the request.
        service: Its host.
        error: The error.
        echo: Content that the provider requires back with the message.
        open: The blocks that are open, by index, in the order in which they opened.
        closed: The blocks that have stopped or were aborted, in the order in which they closed.
    """

    status: ResponseStatus | None = None
    usage: Usage | None = None
    retracted: Usage | None = None
    stop_reason: StopReason | None = None
    response_id: str | None = None
    model: str | None = None
    provider: str | None = None
    service: str | None = None
    error: Error | None = None
    echo: JsonObject | None = None
    open: dict[int, BlockState] = {}
    closed: Pieces[BlockState] = Pieces()

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.status is not None and self.status is not STARTED

    @property
    def blocks(self) -> tuple[BlockState, ...]:
        """All blocks, closed and open, in the order of their index."""
        return tuple(sorted([*self.closed.to_list(), *self.open.values()], key=_index))


_index = attrgetter("index")


def step_response(state: ResponseState, event: ResponseEvent) -> ResponseState:
    """The response after an event.

    A second ``Status(STARTED)`` retracts the events of the response before it: the state begins anew.

    >>> from rxworker.events import TextDelta
    >>> state = step_response(ResponseState(), TextDelta(0, "hello"))
    >>> message_of(state, "echo").text
    'hello'
    """
    return step_events(state, (event,))[0] if event.__class__ in _KINDS else state


def fold_response(events: Iterable[Any]) -> ResponseState:
    """The response after all of its events.

    >>> from rxworker.events import TextDelta
    >>> message_of(fold_response([TextDelta(0, "hel"), TextDelta(0, "lo")]), "echo").text
    'hello'
    """
    rest = iter(events)
    state, last = step_events(ResponseState(), rest)
    while last is not None:
        state, last = step_events(state, rest)
    return state


def step_events(state: ResponseState, events: Iterable[Any]) -> tuple[ResponseState, Status | Error | None]:
    """The response after several events, up to and with the first error, or status that is not its first start.

    Args:
        state: The response before them.
        events: Events and rows of deltas.

    Returns:
        One new state for all of them, and the error or status after which it stopped, if any.
    """
    # A copy of what is open: a handful of blocks, whatever the length of the response.
    blocks, closed, usage = OpenBlocks(state.open), state.closed, state.usage
    blocks.has_status = state.status is not None
    last: Status | Error | None = None
    # Deltas of one sort to one block that are in no state yet, and are taken together.
    like: Any = None  # one of them
    texts: list[str] = []  # what they add
    event: Any = None
    for event in events:
        kind: type[object] = event.__class__
        one: Any = None if kind not in TEXTS else event.like if kind is Deltas else event
        if like is not None and (one is None or one.index != like.index or one.__class__ is not like.__class__):
            blocks[like.index] = step_texts(blocks.get(like.index), like, texts)
            like = None
        if one is not None:
            if like is None:
                like, texts = one, []
            texts.append(one.text if one is event else event.text())
        elif kind in BLOCK_EVENTS:
            index: int = event.index
            if kind is BlockStart and index in blocks:
                for cut, reason in blocks.end_before(event):
                    closed = closed.add(step_block(cut, BlockAbort(index, cut.block_type, reason)))
            block = step_block(blocks.get(index), event)
            if block.phase == "open":
                blocks[index] = block
            else:
                blocks.pop(index, None)
                closed = closed.add(block)
        elif kind is Usage:
            usage = event
        elif kind is Status and blocks.begins_anew(event) is None and event.status is STARTED:
            # It keeps what came before it, such as the usage.
            state = _started(state, event)
        elif kind is Status or kind is Error:
            last = event
            break
    if event is None:
        return state, None
    if like is not None:
        blocks[like.index] = step_texts(blocks.get(like.index), like, texts)
    if isinstance(last, Status) and last.status is STARTED:
        retracted = state.retracted
        if usage is not None and not last.provider:  # several models: their usage has all
            is_partial = usage.is_partial or state.status is not COMPLETED
            retracted = (retracted or Usage()) + replace(usage, is_partial=is_partial)
        return _started(ResponseState(model=state.model, retracted=retracted), last), last
    if isinstance(last, Status):
        state = _ended(state, last, closed)
    elif last is not None:
        state = replace(state, error=last)
    return replace(state, open=blocks, closed=closed, usage=usage), last


def _ended(state: ResponseState, status: Status, closed: Pieces[BlockState]) -> ResponseState:
    """The response after a status that ends it, or with which it goes on."""
    reason = status.stop_reason
    if reason is None and status.status is COMPLETED:
        reason = _reason_of(closed)
    return replace(
        state,
        status=status.status,
        stop_reason=reason,
        response_id=status.response_id or state.response_id,
        echo=status.echo or state.echo,
    )


def _reason_of(closed: Pieces[BlockState]) -> StopReason | None:
    """The last reason that a block has, for a protocol that reports it there."""
    reasons = [block.stop_reason for block in closed.to_list() if block.choice == 0]
    return next((each for each in reversed(reasons) if each is not None), None)


def _started(state: ResponseState, event: Status) -> ResponseState:
    return replace(
        state,
        status=event.status,
        response_id=event.response_id,
        model=event.model or state.model,
        provider=event.provider or state.provider,
        service=event.service if event.provider else state.service,
        echo=event.echo,
    )


def message_of(state: ResponseState, provider: str, service: str = "") -> Message | None:
    """The assistant's message that the response makes, as far as it has come; ``None`` where nothing is worth keeping.

    Args:
        state: The response.
        provider: The name of the provider, if the response does not contain one.
        service: The host of that provider.
    """
    content = [c for block in state.blocks if block.choice == 0 and (c := content_of(block))]
    if state.status is not COMPLETED:
        content = _without_unanswered(content)
    if not content:
        return None
    return Message(
        "assistant",
        tuple(content),
        provider=state.provider or provider or None,
        model=state.model,
        echo=state.echo,
        service=(state.service if state.provider else service) or None,
    )


def _without_unanswered(content: list[Content]) -> list[Content]:
    """Without the provider's own calls whose result never came: no provider accepts them in a message that was cut."""
    answered = {c.tool_use_id for c in content if isinstance(c, ServerToolResult)}
    return [c for c in content if not isinstance(c, ServerToolCall) or c.id in answered]


_KINDS: frozenset[type[object]] = BLOCK_EVENTS | {Usage, Status, Error}
