"""A watched run as the bytes of an answer in AG-UI."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from contextlib import aclosing

from rxworker.events import Record
from rxworker.protocols.ag_ui.encode import AgUiEncoder
from rxworker.protocols.ag_ui.wire import AgUiEvent
from rxworker.protocols.common.lines import data_line
from rxworker.protocols.common.pump import pump
from rxworker.state import RunState


def sse_bytes(event: AgUiEvent) -> bytes:
    r"""An event as a frame of server-sent events.

    >>> from rxworker.protocols.ag_ui.wire import StepStarted
    >>> sse_bytes(StepStarted("turn 1"))
    b'data: {"type":"STEP_STARTED","stepName":"turn 1"}\n\n'
    """
    return data_line(event)


async def ag_ui_stream(
    batches: AsyncIterable[Sequence[Record]],
    thread_id: str,
    run_id: str,
    *,
    protocol: str | None = None,
    snapshot: bool = False,
    parent_run_id: str | None = None,
    state: RunState | None = None,
    run: str = "",
) -> AsyncGenerator[bytes, None]:
    """The bytes to write, a piece for each batch of records. The content type is ``text/event-stream``.

    Everything that is open is closed at the end, also where the run fails, or its watcher is detached.

    Args:
        batches: The records, for example ``watch.batches()``.
        thread_id: The client's name for the conversation.
        run_id: The client's name for the run.
        protocol: The version that the client speaks, as its input says.
        snapshot: Whether to tell first what was said before.
        parent_run_id: As the client's input says.
        state: What the records before these have come to, for a late watcher.
        run: The run's id, with ``state``.
    """
    encoder = AgUiEncoder(
        thread_id, run_id, protocol=protocol, snapshot=snapshot, parent_run_id=parent_run_id
    )
    if state is not None:
        yield b"".join(map(sse_bytes, encoder.catch_up(state, run)))
    async with aclosing(pump(batches, encoder.feed, encoder.close)) as pieces:
        async for events in pieces:
            yield b"".join(map(sse_bytes, events))


__all__ = ["ag_ui_stream", "sse_bytes"]
