"""The tools of a client, for every protocol that has them.

A worker is given the tools that its client sends. A run that waits for them continues with the results of the client.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy

from rxworker.errors import ConfigurationError
from rxworker.messages import Message, ToolMeta, ToolResult
from rxworker.protocols.common import CallIds
from rxworker.providers import Options
from rxworker.tools import ClientTool, Toolbox
from rxworker.ui.web.entry import ConversationEntry, RunEntry
from rxworker.ui.web.responses import ApiError
from rxworker.worker import QueuedWorker
from rxworker.decisions import Answer


def equip(conversation: ConversationEntry, metas: Sequence[ToolMeta], options: Options | None = None) -> None:
    """Give the next run of a conversation the tools and settings of its client, in place of those of the last request.

    The worker stays as it is: other conversations may share it.

    Raises:
        ApiError: One of the tools has the name of a tool of the worker, or the worker runs in other processes.
    """
    worker = conversation.worker
    if metas and isinstance(worker, QueuedWorker):
        raise ApiError(400, "no_tools", "this worker runs in other processes, which cannot run tools of a client")
    if metas or options is not None:
        worker = copy(worker)
        worker.options = options or worker.options
        if metas:
            worker.tools = Toolbox(worker.tools)
            try:
                worker.tools.add(*map(ClientTool, metas))
            except ConfigurationError as error:
                raise ApiError(400, "bad_tools", str(error)) from None
    conversation.session.worker = worker


def answers_of(entry: RunEntry, results: Iterable[ToolResult], *, is_shown: bool = True) -> dict[int, Answer]:
    """The answers to the calls that a run waits for, from results of a client, by the indices of the pending calls.

    Args:
        entry: The run; it must be open.
        results: The results.
        is_shown: Whether they have the ids of `CallIds`, which differ; otherwise those of the calls, in the order of
            the calls.
    """
    pause = entry.run.state.pause
    if pause is None or entry.status != "paused" or entry.resumed_as is not None:
        return {}
    conversation, ids = entry.run.state.conversation, CallIds()
    earlier, shown = set[str](), list[str]()
    for message in conversation.messages:
        if message.tool_calls:
            earlier.update(shown)
            shown = [ids.of_call(call.id) for call in message.tool_calls]
    places = [each.place for each in pause.calls]
    names = [shown[place] if place < len(shown) else "" for place in places]
    answers: dict[int, Answer] = {}
    for result in results:
        name = result.tool_use_id
        if is_shown and (name in names or name in earlier):
            index = names.index(name) if name in names else None
        else:
            same = [at for at, call in enumerate(pause.pending) if call.id == name]
            index = next((at for at in same if at not in answers), None)
        if index is not None:
            answers[index] = Answer(result.content, result.is_error)
    return answers


def without_results(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages without the results in them; a message of results alone is left out."""
    kept: list[Message] = []
    for message in messages:
        content = tuple([c for c in message.content if not isinstance(c, ToolResult)])
        if content:
            kept.append(Message(message.role, content))
    return tuple(kept)
