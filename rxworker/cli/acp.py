"""``rxworker acp``: a worker in an editor, over the Agent Client Protocol on standard input and output."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence

from rxworker.cli.process import MISUSED, CommandError, run_until_stopped, write_error
from rxworker.cli.resolve import import_maker, worker_maker
from rxworker.log import open_log
from rxworker.ui.acp import serve_acp
from rxworker.worker import Worker


def acp(
    maker: str | None = None,
    provider: str | None = None,
    model: str | None = None,
    *,
    base_url: str | None = None,
    api_key_env: str | None = None,
    system: str | None = None,
    max_tokens: int | None = None,
    tools: Sequence[str] = (),
    demo: bool = False,
    log: str | None = None,
) -> int:
    """Serve until the editor disconnects, Ctrl-C or SIGTERM.

    Args:
        maker: The function that makes a worker, as ``module:function``.
        provider: The name of the provider.
        model: The model's name.
        base_url: The address of the service.
        api_key_env: The environment variable that holds the key.
        system: The system prompt.
        max_tokens: The most tokens of an answer.
        tools: The tools that the model may call, as ``module:function``.
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
    elif provider is None or model is None:
        raise CommandError("acp needs MODULE:FUNCTION, --provider and --model, or --demo", MISUSED)
    else:
        make = worker_maker(
            provider,
            model,
            base_url=base_url,
            api_key_env=api_key_env,
            system=system,
            max_tokens=max_tokens,
            tools=tools,
        )

    if os.isatty(0):
        write_error("An editor starts this, and sends it messages of the Agent Client Protocol.")
        write_error("Ctrl-D ends it.")

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stored = None if log is None else await stack.enter_async_context(open_log(log))
            await serve_acp(make, log=stored)

    return run_until_stopped(run)
