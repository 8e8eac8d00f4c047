"""Commands that hooks run: without a shell unless asked for one, with an end, and without the keys of this process."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rxworker.errors import RxWorkerError
from rxworker.hooks.environment import harmless_environment
from rxworker.hooks.process import Output, start, started, stop

# Alone between spaces, these mean something to a shell and nothing to a program.
SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1"})


class CommandResult(Struct, frozen=True):
    """What came of a command.

    Attributes:
        output: What it wrote, to its standard output and its standard error, in the order in which it came.
        exit_code: How it ended; 0 is success, a negative number is the signal that killed it.
        truncated: Whether it wrote more than is kept.
    """

    output: str
    exit_code: int
    truncated: bool = False

    @property
    def ok(self) -> bool:
        """Whether it was successful."""
        return self.exit_code == 0


class CommandError(RxWorkerError):
    """A command could not be started, or took too long.

    Attributes:
        command: What was to be run.
        output: What it wrote until it was killed.
    """

    def __init__(self, message: str, *, command: str | Sequence[str], output: str = "") -> None:
        super().__init__(message)
        self.command = command
        self.output = output


async def run_command(
    command: str | Sequence[str],
    workspace: Path,
    *,
    shell: bool = False,
    timeout: float | None = 60.0,  # noqa: ASYNC109 - the process is killed, not the task
    limit: int = 65_536,
    env: Mapping[str, str] | None = None,
) -> CommandResult:
    r"""Run a command and wait for its end. It reads nothing, and what it leaves running is stopped with it.

    An exit code other than 0 is no error: it is in the result. When the task is cancelled the command is killed.

    Args:
        command: The program and its arguments; a text is split as a shell would, quotes included.
        workspace: The folder it runs in.
        shell: Give the text to a shell, which understands pipes, redirections and variables, and whatever else is in it.
        timeout: Seconds until it is killed; ``None``: never.
        limit: How many bytes of its output are kept.
        env: Variables for it, besides those of this process that look as if they held no secret.

    Raises:
        CommandError: It could not be started, or took too long.

    >>> result = asyncio.run(run_command("echo 'hello   there'", Path()))
    >>> result.output, result.exit_code
    ('hello   there\n', 0)
    """
    words = _words(command, shell=shell)
    variables = {**harmless_environment(os.environ), **(env or {})}
    output = Output(limit)
    _check_folder(command, workspace)
    try:
        transport = await started(
            start(words, output, shell=shell, cwd=workspace, env=variables), output
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        message = f"the command could not be started: {reason}: {_shown(command)}"
        raise CommandError(message, command=command) from error
    try:
        async with asyncio.timeout(timeout):
            # Shielded: to be cancelled is to stop waiting, while the process is still to be reaped.
            await asyncio.shield(output.exited)
    except TimeoutError as error:
        await stop(transport, output)
        message = f"the command took longer than {timeout:g} s and was killed: {_shown(command)}"
        raise CommandError(message, command=command, output=output.text) from error
    except asyncio.CancelledError:
        await stop(transport, output)
        raise
    await stop(transport, output)
    return CommandResult(output.text, transport.get_returncode() or 0, output.truncated)


def _words(command: str | Sequence[str], *, shell: bool) -> list[str]:
    if shell:
        if not isinstance(command, str):
            raise CommandError("a shell takes a text, not a list of words", command=command)
        return [command]
    try:
        words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]
    except ValueError as error:
        raise CommandError(f"{error}: {_shown(command)}", command=command) from error
    if not words or not words[0]:
        raise CommandError("the command is empty", command=command)
    if isinstance(command, str) and (odd := SHELL_WORDS.intersection(words)):
        message = (
            f"{sorted(odd)[0]!r} means something to a shell only: give shell=True, or the words as a list "
            f"to pass it on as it is: {_shown(command)}"
        )
        raise CommandError(message, command=command)
    return words


def _check_folder(command: str | Sequence[str], workspace: Path) -> None:
    if not workspace.is_dir():
        raise CommandError(f"the workspace {str(workspace)!r} is no folder", command=command)


def _shown(command: str | Sequence[str]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


__all__ = ["CommandError", "CommandResult", "run_command"]
