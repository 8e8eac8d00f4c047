"""A run or a board in a notebook: drawn in place while it goes on, without a widget.

One that is the value of a cell is drawn once, as it is then: ``_repr_mimebundle_``. Needs IPython, which every notebook
has.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from reactivex import operators as ops

from rxworker.boards import Board
from rxworker.errors import ConfigurationError
from rxworker.hub import Coalesce
from rxworker.log import Replica
from rxworker.run.run import Run
from rxworker.tools.cancellation import keep
from rxworker.transport.clock import loop_clock
from rxworker.views import RunView, view_html

_FOLLOWING: set[asyncio.Task[None]] = set()


def display_run(run: Run[object] | Replica, *, every: float = 0.25) -> asyncio.Task[None]:
    """Draw a run below the cell, and draw it again while it goes on, also when the cell has ended.

    With ``await display_run(run)`` the cell ends with the run. Interrupting it, or cancelling the task, ends the
    drawing and not the run.

    Args:
        run: The run; on the event loop of the notebook.
        every: Seconds between two drawings, at least.

    Returns:
        A task that is done when the run has ended, however it ended; it need not be awaited.

    Raises:
        ConfigurationError: The program does not run in a notebook.
        LocalProtocolError: There is no running event loop.
    """
    show = _display("display_run")
    view = RunView()
    handle = show(_bundle(run, view), raw=True, display_id=True)

    async def follow() -> None:
        try:
            async for batch in run.watch(Coalesce(every=every), name="notebook").batches():
                for record in batch:
                    view.step(record)
                handle.update(_bundle(run, view), raw=True)
        except Exception:
            if not run.done():
                raise
            # The last record has the reason, and was drawn.

    return keep(follow(), _FOLLOWING, "rxworker notebook")


def display_board(board: Board) -> Callable[[], None]:
    """Draw a board below the cell, and draw it again when a panel changes, also when the cell has ended.

    Args:
        board: The board; on the event loop of the notebook. It draws at most once in its ``every`` seconds.

    Returns:
        A function that ends the drawing, and not the board.

    Raises:
        ConfigurationError: The program does not run in a notebook.
    """
    handle = _display("display_board")(board._repr_mimebundle_(), raw=True, display_id=True)

    def draw(_: object) -> None:
        handle.update(board._repr_mimebundle_(), raw=True)

    # Panels that change together are drawn together.
    return board.changes.pipe(ops.debounce(0.0, loop_clock())).subscribe(draw).dispose


def _display(name: str) -> Callable[..., Any]:
    if "IPython" not in sys.modules or import_module("IPython").get_ipython() is None:
        raise ConfigurationError(f"{name}() draws in a notebook, and this program does not run in one")
    return import_module("IPython.display").display


def _bundle(run: Run[object] | Replica, view: RunView) -> dict[str, str]:
    return {"text/plain": repr(run), "text/html": view_html(view)}
