"""``rxworker acp``: a worker in an editor, over the Agent Client Protocol on standard input and output."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from rxworker.cli.process import MISUSED, CommandError, run_until_stopped, write_error
from rxworker.cli.resolve import WorkerOptions, import_maker
from rxworker.log import open_log
from rxworker.ui.acp import serve_acp
from rxworker.worker import Worker


def acp(
    maker: str | None,
    options: WorkerOptions,
    *,
    demo: bool = False,
    log: str | None = None,
) -> int:
    """Serve until the editor disconnects, Ctrl-C or SIGTERM.

    Args:
        maker: The function that makes a worker, as ``module:function``.
        options: The options that describe a worker.
        demo: Whether a scripted model answers instead of a provider.
        log: The address of the log in which runs are stored.

    Returns:
        0.

    Raises:
        CommandError: An option is wrong, or the log cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    make: Callable[[], Worker]
    if demo:
        from rxworker.cli.demo_script import (
            demo_worker,
        )  # with the testing kit, which takes a while

        make = demo_worker
    elif maker is not None:
        make = import_maker(maker)
    elif made := options.maker():
        make = made
    else:
        raise CommandError("acp needs MODULE:FUNCTION, --provider and --model, or --demo", MISUSED)

    if os.isatty(0):
        write_error("An editor starts this, and sends it messages of the Agent Client Protocol.")
        write_error("Ctrl-D ends it.")

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stored = None if log is None else await stack.enter_async_context(open_log(log))
            await serve_acp(make, log=stored)

    return run_until_stopped(run)
