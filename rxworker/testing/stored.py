"""The requests and responses of a stored run, which `ScriptedModel.from_log` returns again."""

from __future__ import annotations

from itertools import zip_longest

from msgspec import Struct

from rxworker.errors import LocalProtocolError, LogError, ProviderError
from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    ConversationCompact,
    Error,
    ResponseEvent,
    ResponseStatus,
    RunAbort,
    RunStart,
    Status,
)
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.diff import message_keys
from rxworker.log.format import records_of
from rxworker.messages import Conversation, Message
from rxworker.messages.history import HEADING
from rxworker.operators import error_to_exception
from rxworker.providers.base import Request
from rxworker.state import RunState, step_run
from rxworker.testing.reply import Reply, reply_events
from rxworker.ui.describe import describe_message


class RequestChangedError(LocalProtocolError):
    """A request differs from the one that a stored run has made at this point.

    Attributes:
        request: The number of the request, from 1.
        difference: The first difference.
    """

    def __init__(self, request: int, difference: str) -> None:
        super().__init__(
            f"request {request} differs from the stored one: {difference}. "
            "If this is intended, store a new run, or pass strict=False"
        )
        self.request = request
        self.difference = difference


class StoredResponse(Struct, frozen=True):
    """One response of a stored run, with its request.

    Attributes:
        provider: The name of the provider.
        model: The name of the model.
        conversation: The conversation of the request, without the changes that a hook made for this request alone;
            ``None`` of a summary, whose prompt is not stored.
        tools: The names of the tools; ``None`` if the run has not stored them.
        events: The events of the response.
        error: The error that ended it.
    """

    provider: str
    model: str
    conversation: Conversation | None
    tools: frozenset[str] | None
    events: tuple[ResponseEvent, ...] = ()
    error: Exception | None = None


async def stored_responses(log: EventLog, run_id: str) -> list[StoredResponse]:
    """The responses of a stored run, in order, without those that were retracted and those of runs inside it.

    Raises:
        LogError: There is no such run, it has no response, or the log cannot be read.
    """
    state = RunState()
    tools: frozenset[str] | None = None
    kept: list[StoredResponse] = []
    start: AttemptStart | None = None
    conversation, events = state.conversation, list[ResponseEvent]()
    error: Exception | None = None

    def keep() -> None:
        if start is not None:
            ending = _error_of(events, error)
            kept.append(StoredResponse(start.provider, start.model, conversation, tools, tuple(events), ending))

    for record in records_of([entry async for entry in log.read(run_id)], run_id):
        state = step_run(state, record)
        event = record.event
        if record.path:
            continue
        match event:
            case RunStart(tools=digests):
                tools = frozenset(digests)
            case AttemptStart():
                keep()
                start, conversation, events, error = event, state.conversation.sent, [], None
            case ConversationCompact(by="model", replaced=replaced, instead=(*_, summary)) if replaced:
                keep()
                start = None
                text = summary.text.removeprefix(HEADING).strip()
                written = reply_events(Reply(text, usage=event.usage), len(kept) + 1, event.model)
                kept.append(StoredResponse("", event.model, None, None, tuple(written)))
            case AttemptRetract():
                start = None
            case RunAbort(cause="error", reason=reason):
                error = ProviderError(reason)
            case _:
                events += [one.event for one in expand(record) if isinstance(one.event, ResponseEvent)]
    keep()
    if not kept:
        raise LogError(f"{run_id} has no response that could be given again")
    return kept


def _error_of(events: list[ResponseEvent], aborted: Exception | None) -> Exception | None:
    """The error that ended the response, if it did not complete; ``aborted`` if its events do not contain it."""
    last = next((event for event in reversed(events) if isinstance(event, Status)), None)
    if last is not None and last.status is ResponseStatus.COMPLETED:
        return None
    error = next((event for event in reversed(events) if isinstance(event, Error)), None)
    return aborted if error is None else error_to_exception(error)


def difference_of(stored: StoredResponse, request: Request) -> str | None:
    """The first difference between a stored request and one that is made now.

    >>> then = StoredResponse("", "", Conversation((Message.user("Hi"),)), None)
    >>> difference_of(then, Request(Conversation((Message.user("Hello"),))))
    "message 1 was 'user: Hi', and is now 'user: Hello'"
    """
    then, now = stored.conversation, request.conversation
    if then is None:
        return None
    if then.system != now.system:
        return f"the system text was {then.system!r:.100}, and is now {now.system!r:.100}"
    keys = zip_longest(message_keys(then.messages), message_keys(now.messages))
    for at, (one, other) in enumerate(keys):
        if one != other:
            was, is_now = _message_at(then, at), _message_at(now, at)
            return f"message {at + 1} was {was}, and is now {is_now}"
    names = frozenset(tool.name for tool in request.tools)
    if stored.tools is not None and stored.tools != names:
        gone, new = sorted(stored.tools - names), sorted(names - stored.tools)
        return f"the tools differ: {gone} are missing, and {new} are new"
    return None


def _message_at(conversation: Conversation, at: int) -> str:
    messages: tuple[Message, ...] = conversation.messages
    return repr(describe_message(messages[at])) if at < len(messages) else "not there"
