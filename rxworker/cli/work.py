"""``rxworker work``: runs of a queue, in any number of processes on any number of machines; and ``rxworker submit``.

The server of ``--health`` is imported on demand: a process without one starts in half the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from rxworker.cli.process import open_patiently, run_async, run_until_stopped, write_line
from rxworker.cli.resolve import import_maker, parameters_of
from rxworker.log import RunInfo, open_log
from rxworker.worker import submit as submit_run
from rxworker.worker import work as work_on
from rxworker.worker.session import Worker


def work(
    address: str,
    maker: str,
    *,
    concurrency: int = 8,
    kinds: Sequence[str] = (),
    tenant_cap: int | None = None,
    drain: float = 20.0,
    health: tuple[str | None, int] | None = None,
) -> int:
    """Take runs until Ctrl-C or SIGTERM, and hand over those that are running then.

    Its arguments are the options of the command; see ``rxworker work --help``.

    Returns:
        0 if it ended after SIGTERM.

    Raises:
        CommandError: The function cannot be imported, the log cannot be opened, or the port is in use.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    found = import_maker(maker)

    def make(info: RunInfo) -> Worker | None:
        return found(info) if parameters_of(found) else found()

    async def main() -> None:
        is_begun, is_over, opened = False, False, None
        async with AsyncExitStack() as stack:
            if health is not None:
                from rxworker.ui.web.http.responses import CLOSING, STARTING
                from rxworker.ui.web.server import serve_health

                def obstacle() -> str:
                    return CLOSING if is_over else "" if is_begun else STARTING

                serving = serve_health(*health, obstacle, lambda: opened)
                port = await stack.enter_async_context(serving)
                write_line(f"Its health is on port {port}: /healthz and /readyz.")
            log = opened = await stack.enter_async_context(await open_patiently(address))
            write_line(f"rxworker works on {log}, {concurrency} runs at once. Ctrl-C hands them over.")
            working = asyncio.create_task(
                work_on(
                    log,
                    make,
                    concurrency=concurrency,
                    kinds=kinds,
                    tenant_cap=tenant_cap,
                    drain=drain,
                    on_run=lambda run: write_line(f"{run.id} taken"),
                )
            )
            is_begun = True
            try:
                await asyncio.wait({working})
            finally:
                is_over = True
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
            working.result()

    return run_until_stopped(main)


def submit(
    address: str,
    text: str,
    *,
    kind: str = "",
    tenant: str = "",
    priority: int = 0,
    run_id: str | None = None,
    at: float | None = None,
) -> int:
    """Store a run for ``rxworker work``, and print its id.

    Its arguments are the options of the command; see ``rxworker submit --help``.

    Raises:
        ConfigurationError: The id is invalid.
        LogError: The log cannot be written, or has another run under this id.
    """

    async def main() -> None:
        async with open_log(address) as log:
            write_line(await submit_run(log, text, kind=kind, tenant=tenant, priority=priority, run_id=run_id, at=at))

    run_async(main())
    return 0
