"""The states of blocks, responses and runs, folded from their events and records.

Pure: neither reactivex nor asyncio is imported.

>>> from rxworker.events import Record, TextDelta
>>> record = Record(seq=1, run_id="run-1", turn=1, attempt=1, time=0.0, event=TextDelta(0, "Hello"))
>>> message_of(fold_run([record]).response, "anthropic").text
'Hello'
"""

from rxworker.state.block import BlockState, content_of, step_block
from rxworker.state.response import ResponseState, message_of, step_response
from rxworker.state.run import fold_run, step_run
from rxworker.state.run_state import RunState, RunStatus
from rxworker.state.shared_state import apply_change

__all__ = [
    # of a block
    "BlockState",
    "step_block",
    "content_of",
    # of a response
    "ResponseState",
    "step_response",
    "message_of",
    # of a run
    "RunState",
    "RunStatus",
    "step_run",
    "fold_run",
    # shared with user interfaces
    "apply_change",
    # of a text that grows
]
