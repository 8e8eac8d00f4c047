"""``rxworker tap``: record the runs of other programs in a log; ``rxworker serve --tap`` does so beside its page.

What a source needs is imported when it is used: few programs use several.
"""

from __future__ import annotations

import asyncio
import gc
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from rxworker.cli.process import MISUSED, CommandError, open_patiently, run_until_stopped, write_error, write_line
from rxworker.cli.resolve import read_variable
from rxworker.errors import reason_of
from rxworker.providers.base import hidden_url

if TYPE_CHECKING:
    from rxworker.log import EventLog
    from rxworker.tap import TapEach
    from rxworker.tap.each import TapOptions


class TapLine(Struct, frozen=True, kw_only=True):
    """What is tapped, as a command line has it.

    Attributes:
        source: The name of the source.
        folder: The folder of session files, by default that of their program.
        since: Session files that have not changed since are left out.
        url: An address.
        given: What is sent there, with which a run begins.
        to: The address of the service behind the proxy.
        listen: The host and the port to listen on; by default those of the source, for this machine.
        token_env: The environment variable that holds the token of the address, or of what listens.
        name: The name of the program in lists; by default that of the source.
        labels: The labels of the runs.
    """

    source: str
    folder: str | None = None
    since: float | None = None
    url: str = ""
    given: str | None = None
    to: str = ""
    listen: tuple[str | None, int] | None = None
    token_env: str | None = None
    name: str = ""
    labels: Sequence[tuple[str, str]] = ()


class Begun(Struct, frozen=True):
    """A tap that records.

    Attributes:
        text: What it does, as the command prints it.
        ended: Waits until its source has ended, and raises its error.
    """

    text: str
    ended: Callable[[], Awaitable[object]]


def tap(*, address: str, **given: object) -> int:
    """Record until Ctrl-C, or until the source has ended.

    Its arguments are the options of the command; see ``rxworker tap --help``.

    Returns:
        0 if it ended after SIGTERM, or with its source.

    Raises:
        CommandError: An option is wrong, or the source has failed.
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    line = TapLine(**given)  # pyright: ignore[reportArgumentType] - as the parser has made them

    async def run() -> None:
        async with AsyncExitStack() as opened:
            log = await opened.enter_async_context(await open_patiently(address))
            begun = await begin(line, log, opened)
            write_line(f"{begun.text}\nCtrl-C ends it.")
            await begun.ended()

    return run_until_stopped(run)


def read_line(text: str) -> TapLine:
    """What ``--tap`` names: the rest of a line of ``rxworker tap``, such as ``claude-code --since 1d``.

    Raises:
        CommandError: It is not such a line.

    >>> read_line("claude-code /tmp --name desk").name
    'desk'
    """
    from rxworker.cli.main import make_tap_parser

    try:
        return TapLine(**vars(make_tap_parser().parse_args(shlex.split(text))))
    except ValueError as error:
        raise CommandError(f"--tap {text!r}: {error}", MISUSED) from error


async def begin(line: TapLine, log: EventLog, opened: AsyncExitStack) -> Begun:
    """Begin to record.

    Args:
        line: What.
        log: Stores the runs.
        opened: Ends it.

    Raises:
        ConfigurationError: An option is wrong, or an extra is not installed.
    """
    options: TapOptions = {"name": line.name or line.source, "log": log, "labels": dict(line.labels)}
    return await SOURCES[line.source](line, options, opened)


def report(line: TapLine, begun: Begun) -> asyncio.Task[None]:
    """A task that reports the error with which a tap of a server ends: the server goes on."""

    async def follow() -> None:
        try:
            await begun.ended()
        except Exception as error:
            write_error(f"rxworker: the tap {line.source} has ended: {reason_of(error)}")

    return asyncio.ensure_future(follow())


async def _session_files(line: TapLine, options: TapOptions, opened: AsyncExitStack) -> Begun:
    from rxworker.tap import tap_each
    from rxworker.tap.sources import ClaudeCode, Codex, session_files

    mapper = ClaudeCode() if line.source == "claude-code" else Codex()
    if line.folder and not Path(line.folder).expanduser().is_dir():  # noqa: ASYNC240 - reading is short
        raise CommandError(f"there is no folder {line.folder!r}: give the folder of the session files", MISUSED)
    folder = line.folder or mapper.FOLDER
    lines = session_files(folder, since=line.since)
    each: TapEach[tuple[str, str]] = tap_each(lines, mapper, prefix=f"{line.source}-", **options)
    await opened.enter_async_context(each)
    return Begun(f"records the sessions in {Path(folder)}", each.ended)


async def _ag_ui(line: TapLine, options: TapOptions, _: AsyncExitStack) -> Begun:
    from rxworker.tap import tap
    from rxworker.tap.sources import AGUI, ag_ui_events

    events = ag_ui_events(line.url, line.given, headers=_headers(line))
    run = tap(events, AGUI(), **options)
    return Begun(f"records the AG-UI events of {hidden_url(line.url)}", lambda: run)


async def _rxworker(line: TapLine, options: TapOptions, _: AsyncExitStack) -> Begun:
    from rxworker.tap import tap
    from rxworker.tap.sources import remote_records

    run_id = f"{line.name or line.source}-{line.url.rstrip('/').removesuffix('/events').rpartition('/')[2]}"
    run = tap(remote_records(line.url, headers=_headers(line)), run_id=run_id, **options)
    return Begun(f"records the run at {hidden_url(line.url)} as {run_id}", lambda: run)


async def _otlp(line: TapLine, options: TapOptions, opened: AsyncExitStack) -> Begun:
    from rxworker.tap import tap_each
    from rxworker.tap.sources import OTLP, OTLPReceiver

    host, port = line.listen or (None, 4318)
    receiver = OTLPReceiver(host or "127.0.0.1", port, token=_token(line))
    each = tap_each(receiver, OTLP(), prefix="otlp-", **options)
    await opened.enter_async_context(each)
    opened.push_async_callback(each.ended)  # when the receiver is closed, which gives the traces that it holds
    await opened.enter_async_context(receiver)
    return Begun(f"records traces: set OTEL_EXPORTER_OTLP_ENDPOINT={receiver.url.rstrip('/')}", each.ended)


async def _proxy(line: TapLine, options: TapOptions, opened: AsyncExitStack) -> Begun:
    from rxworker.tap.proxy import TapProxy

    host, port = line.listen or (None, 8484)
    proxy = TapProxy(line.to, host=host or "127.0.0.1", port=port, token=_token(line), **options)
    await opened.enter_async_context(proxy)
    gc.freeze()  # what was imported is not looked through again, for which all that passes would wait
    text = f"passes requests on to {hidden_url(line.to)}: set {proxy.url.rstrip('/')} as the base URL"
    return Begun(text, asyncio.Event().wait)


def _headers(line: TapLine) -> dict[str, str]:
    token = _token(line)
    return {} if token is None else {"authorization": f"Bearer {token}"}


def _token(line: TapLine) -> str | None:
    return read_variable("--token-env", line.token_env)


Beginning = Callable[[TapLine, "TapOptions", AsyncExitStack], Awaitable[Begun]]
SOURCES: Mapping[str, Beginning] = {
    "claude-code": _session_files,
    "codex": _session_files,
    "proxy": _proxy,
    "otlp": _otlp,
    "agui": _ag_ui,
    "rxworker": _rxworker,
}
"""What begins each source, by its name."""
