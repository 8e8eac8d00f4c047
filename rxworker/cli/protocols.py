"""``rxworker acp``, a worker in an editor; and ``rxworker mcp``, workers as the tools of an MCP server.

The first speaks the Agent Client Protocol, the second over standard input and output or over HTTP. The scripted model
of ``--demo`` and the server of MCP are imported on demand: an editor waits for the start, and the package mcp takes
most of a second.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from rxworker.adapters.acp import serve_acp
from rxworker.cli.process import MISUSED, CommandError, misuse, run_until_stopped, write_error, write_line
from rxworker.cli.resolve import WorkerOptions, by_name, import_maker, import_named, settings_of
from rxworker.log import open_log
from rxworker.worker.session import Worker

NAME = "worker"
"""The name of the tool of a provider's model, unless another is given."""


def mcp(
    options: WorkerOptions,
    *,
    makers: Sequence[str] = (),
    name: str = NAME,
    description: str = "",
    http: tuple[str | None, int] | None = None,
    token_env: str | None = None,
    allowed_hosts: Sequence[str] = (),
    demo: bool = False,
    log: str | None = None,
) -> int:
    """Serve until the client closes standard input, or until Ctrl-C.

    Its arguments are the options of the command; see ``rxworker mcp --help``.

    Returns:
        0 if it ended after SIGTERM.

    Raises:
        CommandError: An option is wrong, or the port is in use.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    from rxworker.adapters.mcp import McpServer, McpWorker

    host, port = (http and http[0]) or "127.0.0.1", http[1] if http else 0
    settings = settings_of(f"--http {host}:{port}", host, token_env, allowed_hosts, gate=options.input_gate())
    served = [import_named(given, McpWorker) for given in makers]
    if make := options.maker():
        served.append((name, McpWorker(make, description)))
    if demo:
        from rxworker.cli.demo_script import demo_worker

        served.append(("demo", McpWorker(demo_worker, "Plan a short trip. The answers come from a script.")))
    workers = by_name(served, "mcp needs the function that makes a worker, --provider and --model, or --demo")
    with misuse():
        McpServer(workers, settings=settings)

    async def main() -> None:
        async with nullcontext() if log is None else open_log(log) as stored:
            server = McpServer(workers, settings=settings, log=stored)
            if http is None:
                await server.serve_stdio()
                return
            async with server.listen(host, port) as url:
                write_line(f"rxworker serves MCP at {url}")
                write_line("Ctrl-C ends it.")
                await asyncio.Event().wait()

    return run_until_stopped(main)


def acp(options: WorkerOptions, *, maker: str | None = None, demo: bool = False, log: str | None = None) -> int:
    """Serve until the editor disconnects, Ctrl-C or SIGTERM.

    Its arguments are the options of the command; see ``rxworker acp --help``.

    Returns:
        0.

    Raises:
        CommandError: An option is wrong, or the log cannot be opened.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    make: Callable[[], Worker]
    gate = options.input_gate()
    if demo:
        from rxworker.cli.demo_script import demo_worker

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
        async with nullcontext() if log is None else open_log(log) as stored:
            await serve_acp(make, log=stored, gate=gate)

    return run_until_stopped(run)
