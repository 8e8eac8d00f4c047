"""``rxworker acp``: a worker in an editor, over the Agent Client Protocol. ``rxworker mcp``: workers as the tools of an MCP server, over standard input and output or over HTTP."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from rxworker.adapters.acp import serve_acp
from rxworker.adapters.mcp import McpServer, McpWorker
from rxworker.cli.process import (
    MISUSED,
    CommandError,
    explain,
    run_until_stopped,
    write_error,
    write_line,
)
from rxworker.cli.resolve import (
    WorkerOptions,
    import_maker,
    import_object,
    name_of,
    read_variable,
)
from rxworker.errors import ConfigurationError
from rxworker.log import open_log
from rxworker.ui.clean import one_line
from rxworker.ui.web import Settings
from rxworker.ui.web.settings import is_loopback
from rxworker.worker.worker import Worker

NAME = "worker"
"""The name of the tool of a provider's model, unless another is given."""

Workers = dict[str, McpWorker | Callable[[], Worker]]


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
    token = read_variable("--token-env", token_env)
    host, port = (http and http[0]) or "127.0.0.1", http[1] if http else 0
    if token is None and not is_loopback(host):
        message = f"--http {host}:{port}: other machines can reach that; name a variable with a token with --token-env, or leave the host out"
        raise CommandError(message, MISUSED)
    workers: Workers = {}
    for given in makers:
        _add(workers, *_import_worker(given))
    if make := options.maker():
        _add(workers, name, McpWorker(make, description))
    if demo:
        from rxworker.cli.demo_script import (
            demo_worker,
        )  # with the testing kit, which takes a while

        about = "Plan a short trip. The answers come from a script."
        _add(workers, "demo", McpWorker(demo_worker, about))
    if not workers:
        message = "mcp needs the function that makes a worker, --provider and --model, or --demo"
        raise CommandError(message, MISUSED)
    try:
        settings = Settings(token=token, allowed_hosts=tuple(allowed_hosts))
        McpServer(workers, settings=settings)
    except ConfigurationError as error:
        raise CommandError(explain(error), MISUSED) from error

    async def main() -> None:
        async with AsyncExitStack() as stack:
            stored = None if log is None else await stack.enter_async_context(open_log(log))
            server = McpServer(workers, settings=settings, log=stored)
            if http is None:
                await server.serve_stdio()
                return
            url = await stack.enter_async_context(server.listen(host, port))
            write_line(f"rxworker serves MCP at {url}")
            write_line("Ctrl-C ends it.")
            await asyncio.Event().wait()

    return run_until_stopped(main)


def _add(workers: Workers, name: str, worker: McpWorker | Callable[[], Worker]) -> None:
    if name in workers:
        message = f"two tools have the name {name!r}: write NAME=MODULE:FUNCTION for one of them"
        raise CommandError(message, MISUSED)
    workers[name] = worker


def _import_worker(given: str) -> tuple[str, McpWorker | Callable[[], Worker]]:
    """The name and the worker of an argument."""
    name, _, path = given.rpartition("=")
    found = import_object(one_line(given, 80), path, "my_workers:make_clerk")
    made = found if isinstance(found, McpWorker) else import_maker(path)
    return name or name_of(path), made


def acp(
    options: WorkerOptions,
    *,
    maker: str | None = None,
    demo: bool = False,
    log: str | None = None,
) -> int:
    """Serve until the editor disconnects, Ctrl-C or SIGTERM.

    Its arguments are the options of the command; see ``rxworker acp --help``.

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
        async with AsyncExitStack() as stack:
            stored = None if log is None else await stack.enter_async_context(open_log(log))
            await serve_acp(make, log=stored)

    return run_until_stopped(run)
