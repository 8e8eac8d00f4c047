"""Commands that hooks run.

Without a shell unless one is requested, with a time limit, and without the keys of this process.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from rxworker.errors import RxWorkerError

# Patterns are compiled, and cached by `re`, at their first use: most programs run no commands.
SECRET_NAME = (
    r"(?i)API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|KEYS?($|_|\d)|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE"
    r"|(^|_)(PASS|PWD|AUTH|PAT|DSN|COOKIE)$|CREDENTIAL|AUTHORIZATION"
)
SECRET_VALUE = (
    r"^\s*((sk|gsk|xai|pplx|csk|nvapi)[-_]|fw_|AIza|AKIA|ghp_|gho_|ghs_|github_pat_|hf_|r8_|Bearer )"
    r"|://[^/\s:@]*:[^/\s@]+@|://[^/\s:@]{20,}@"
)
# The working directory, not a password.
PLAIN = frozenset({"PWD", "OLDPWD"})


def harmless_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that do not look as if they held a secret, by their name or by their value.

    >>> harmless_environment({"HOME": "/home/ada", "ANTHROPIC_API_KEY": "x", "MINE": "sk-1", "PROXY": "http://a:b@c"})
    {'HOME': '/home/ada'}
    """
    return {
        name: value
        for name, value in environment.items()
        if name in PLAIN or not (re.search(SECRET_NAME, name) or re.search(SECRET_VALUE, value))
    }


# Seconds for the output of a process that has ended to be read to its end.
DRAIN = 1.0


class Output(asyncio.SubprocessProtocol):
    """Keeps the first bytes of what a process writes, reads the rest away, and knows when it has ended."""

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.exited: asyncio.Future[None] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self.truncated = False
        self._left = limit
        self._pieces: list[bytes] = []

    @property
    def text(self) -> str:
        """The part of the output that is kept."""
        return b"".join(self._pieces).decode("utf-8", "replace")

    def pipe_data_received(self, fd: int, data: bytes) -> None:  # noqa: ARG002 - part of the signature
        """The process has written something."""
        self.truncated = self.truncated or len(data) > self._left
        kept = data[: self._left]
        if kept:
            self._pieces.append(kept)
            self._left -= len(kept)

    def process_exited(self) -> None:
        """It has ended; what it wrote may still be on its way."""
        if not self.exited.done():
            self.exited.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - part of the signature
        """It has ended, and all that it wrote has come."""
        if not self.closed.done():
            self.closed.set_result(None)


async def start(
    words: list[str], output: Output, *, shell: bool, cwd: Path, env: Mapping[str, str]
) -> asyncio.SubprocessTransport:
    """Start a process whose output goes there.

    A task that is cancelled waits until it has started, since half a start cannot be stopped.

    Raises:
        OSError: It cannot be started.
        ValueError: Its words cannot be passed on.
    """
    loop = asyncio.get_running_loop()
    begin = loop.subprocess_shell if shell else loop.subprocess_exec
    # One pipe for both outputs keeps their order; a session of its own lets what the command starts be stopped with it.
    starting = begin(
        lambda: output,
        *words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )
    task = asyncio.ensure_future(starting)
    try:
        return (await asyncio.shield(task))[0]
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled() and task.exception() is None:
            await stop(task.result()[0], output)
        raise


async def stop(transport: asyncio.SubprocessTransport, output: Output) -> None:
    """End what still runs, and read what was written before."""
    _kill(transport, output)
    try:
        async with asyncio.timeout(DRAIN):
            await asyncio.shield(output.exited)
            await asyncio.shield(output.closed)
    except TimeoutError:
        # A process has left the session and keeps the pipe open; do not wait for it.
        pass
    finally:
        transport.close()


def _kill(transport: asyncio.SubprocessTransport, output: Output) -> None:
    if sys.platform != "win32":
        try:
            os.killpg(transport.get_pid(), signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
    elif not output.exited.done():
        transport.kill()


# What a shell would not pass on as it is: operators, variables, patterns for the names of files. Not `[`: `pip install
# a[b]` is usual.
UNQUOTED = r"(?a)[;|&<>()\n`*?]|\$(?=[\w{(@#$!-])|(?<!\S)[~#]|\A[A-Za-z_]\w*="
IN_QUOTES = r"(?a)`|\$(?=[\w{(@#$!-])"
PART = r"(?s)(?P<plain>'[^']*'|\\.)|\"(?P<quoted>(?:[^\"\\]|\\.)*)\""


class CommandResult(Struct, frozen=True):
    """The output and the exit code of a command.

    Attributes:
        output: Its standard output and standard error, in the order of arrival.
        exit_code: Its exit code; 0 is success, a negative number is the signal that killed it.
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
        command: The command.
        output: Its output until it was killed.
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

    An exit code other than 0 is not an error: it is in the result. When the task is cancelled the command is killed.

    Args:
        command: The program and its arguments; a text is split as a shell would, quotes included. What only a shell
            understands is refused.
        workspace: The folder it runs in.
        shell: Give the text to a shell, which understands pipes, redirections and variables, and whatever else is in
            it.
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
        transport = await start(words, output, shell=shell, cwd=workspace, env=variables)
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
    if isinstance(command, str) and (odd := _for_a_shell(command)) is not None:
        message = (
            f"{odd!r} means something to a shell only: give shell=True, or the words as a list "
            f"to pass it on as it is: {_shown(command)}"
        )
        raise CommandError(message, command=command)
    return words


def _for_a_shell(command: str) -> str | None:
    """The first sign in a text that a shell would not pass on as it is."""
    # A letter in place of what is quoted, so that no word begins after it.
    unquoted = re.search(UNQUOTED, re.sub(PART, "x", command.strip()))
    if unquoted is not None:
        return unquoted[0]
    for part in re.finditer(PART, command):
        quoted = part["quoted"] and re.search(IN_QUOTES, part["quoted"])
        if quoted:
            return quoted[0]
    return None


def _check_folder(command: str | Sequence[str], workspace: Path) -> None:
    if not workspace.is_dir():
        raise CommandError(f"the workspace {str(workspace)!r} is not a folder", command=command)


def _shown(command: str | Sequence[str]) -> str:
    return command if isinstance(command, str) else shlex.join(command)
