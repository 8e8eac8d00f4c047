"""``rxworker chat``: a conversation with a model in the terminal.

Line by line, a `LoopThread` runs the event loop, and the main thread reads lines, writes to a slow terminal and handles
Ctrl-C. So none of these blocks a run.

Theory of operation of the prompt. ``input`` edits lines with readline, whose loop in C checks for signals only when one
wakes its ``select``. A Ctrl-C that arrives just before the ``select`` is noticed with the next key. So the signal is
also written to a pipe, which the event loop reads; if the prompt is still open a moment later, the event loop sends the
signal once more.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from rxworker.cli.answer import Page, PlainPage, answer
from rxworker.cli.process import FAILED, INTERRUPTED, MISUSED, CommandError, explain, misuse, run_async, write_error
from rxworker.cli.resolve import WorkerOptions
from rxworker.desk.conversation import OpenConversation
from rxworker.errors import RunCancelledError
from rxworker.hooks.ready import terminal_hooks
from rxworker.log import EventLog, open_log
from rxworker.log.values import CONVERSATION
from rxworker.operators.gate import InputGate
from rxworker.transport import Model
from rxworker.transport.clock import LoopThread
from rxworker.ui.clean import clean, one_line
from rxworker.ui.terminal.lifecycle import is_terminal
from rxworker.ui.terminal.run import has_textual, run_app_async
from rxworker.ui.terminal.session import AppOptions, list_sessions, title_of_session
from rxworker.worker.session import Session, Worker


class LastChat(Struct, frozen=True, omit_defaults=True):
    """The options of a chat that the next one without a provider has.

    It has no key: only the name of the variable that holds one. An address of a log may have a password.

    Attributes:
        provider: The name of the provider.
        model: The model's name.
        base_url: The address of the service.
        api_key_env: The environment variable that holds the key.
        log: The address of the log.
    """

    provider: str
    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    log: str | None = None


def chat_file() -> Path:
    """The file of it: ``rxworker/chat.json`` in the folder of states of the XDG Base Directory Specification."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "rxworker" / "chat.json"


def last_chat() -> LastChat | None:
    """What was remembered; ``None`` if there is nothing, or it cannot be read."""
    try:
        return msgspec.json.decode(chat_file().read_bytes(), type=LastChat)
    except (OSError, RuntimeError, UnicodeError, msgspec.DecodeError):
        return None


def remember_chat(chat: LastChat) -> None:
    """Remember it, with the file of a log as found from any folder.

    If the folder cannot be written, the chat goes on without it.
    """
    scheme, _, file = (chat.log or "").partition(":")
    if scheme == "sqlite":
        chat = replace(chat, log=f"sqlite:{Path(file).absolute()}")
    with suppress(OSError, RuntimeError, UnicodeError):
        path, data = chat_file(), msgspec.json.encode(chat)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        # An address may have a password, so that no other user reads it.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)


DUMB = frozenset({"dumb", "unknown"})
"""The kinds of terminals that cannot place text: a chat is line by line there."""
GO_ON = "To go on with this conversation: "
LOST = "This conversation is not stored. The same key again leaves and loses it; --log sqlite:FILE stores the next one."


def chat(
    options: WorkerOptions,
    *,
    plain: bool = False,
    hooks: bool = True,
    also: Sequence[str] = (),
    log: str | None = None,
    goes_on: bool = False,
) -> int:
    """Read messages and print answers until the input ends.

    Its arguments are the options of the command; see ``rxworker chat --help``.

    Returns:
        0; 1 when an answer failed and the input is not a terminal; 130 after Ctrl-C; in full screen also 143 after
        SIGTERM, and 129 when the terminal was closed.

    Raises:
        CommandError: An option is wrong.
    """
    is_person = is_terminal(sys.stdin) and is_terminal(sys.stdout)
    options, log = _remembered(options, log, is_person=is_person, goes_on=goes_on)
    make = options.maker(terminal_hooks if hooks else tuple)
    if make is None:
        raise CommandError(
            "chat needs --provider and --model, such as --provider anthropic --model claude-sonnet-5-5; "
            "rxworker chat --help lists the providers, and rxworker demo needs none",
            MISUSED,
        )
    if goes_on and log is None:
        raise CommandError("--continue needs the --log of the conversation", MISUSED)
    worker = make()
    if is_person and options.provider and options.model:
        remember_chat(LastChat(options.provider, options.model, options.base_url, options.api_key_env, log))
    again = _command(options, plain=plain, hooks=hooks)
    is_plain = plain or os.environ.get("TERM") in DUMB
    if is_person and not is_plain:
        if has_textual():
            find_model = options.model_finder()
            models = [_find(find_model, each) for each in also]
            app = AppOptions(
                wording=explain, models=models, find_model=find_model, goes_on=goes_on, gate=options.input_gate()
            )
            return _fill_screen(worker, log, again, app)
        write_error("To fill the screen: pip install '/path/to/the/checkout[tui]'. Line by line: --plain.")
    return converse(worker, is_person=is_person, log=log, goes_on=goes_on, again=again, gate=options.input_gate())


def _remembered(
    options: WorkerOptions, log: str | None, *, is_person: bool, goes_on: bool
) -> tuple[WorkerOptions, str | None]:
    """The options of a person who gives neither a provider nor a model are those of the last time.

    So is the log, to go on with a conversation of it.
    """
    last = last_chat() if is_person and options.provider is None else None
    if last is None:
        return options, log
    if options.model not in (None, last.model):
        return replace(options, provider=last.provider), log
    known = replace(
        options,
        provider=last.provider,
        model=last.model,
        base_url=options.base_url or last.base_url,
        api_key_env=options.api_key_env or last.api_key_env,
    )
    return known, (log or last.log) if goes_on else log


def _fill_screen(worker: Worker, log: str | None, again: str, app: AppOptions) -> int:
    async def run() -> int:
        async with nullcontext() if log is None else open_log(log) as opened:
            session = Session(worker, log=opened)
            code = await run_app_async(session, **app)
            if opened is not None and session.conversation.messages:
                write_error(GO_ON + again)
            return code

    return asyncio.run(run())


def _command(options: WorkerOptions, *, plain: bool, hooks: bool) -> str:
    """The command that goes on with a conversation: with the options that are not remembered."""
    given = ["rxworker", "chat", "--continue"]
    for name, values in (
        ("--tool", options.tools),
        ("--system", [] if options.system is None else [options.system]),
        ("--max-tokens", [] if options.max_tokens is None else [str(options.max_tokens)]),
    ):
        given += [each for value in values for each in (name, value)]
    given += ["--plain"] * plain + ["--no-hooks"] * (not hooks)
    return clean(shlex.join(given))


def _find(find_model: Callable[[str, str], Model], name: str) -> Model:
    provider, slash, model = name.partition("/")
    if not (slash and model):
        raise CommandError(f"--also {one_line(name, 60)}: write it as PROVIDER/NAME", MISUSED)
    with misuse(f"--also {one_line(name, 60)}: "):
        return find_model(provider, model)


def converse(
    worker: Worker,
    *,
    is_person: bool,
    log: str | None = None,
    goes_on: bool = False,
    again: str = "",
    gate: InputGate | None = None,
) -> int:
    """Hold a conversation over standard input and output.

    Args:
        worker: The worker.
        is_person: Whether input and output are terminals.
        log: The address of the log in which the runs are stored.
        goes_on: Whether it goes on with the conversation of the log that was used last.
        again: The command that goes on with the conversation.
        gate: What is typed must pass it.

    Raises:
        CommandError: The log has no conversation that it can go on with.
    """
    console = Console(highlight=False)
    page = Page(console) if is_person else PlainPage(console)
    if is_person:
        page.note(greeting(worker))
    with (
        LoopThread("rxworker-loop", run_async, STOP_SECONDS) as background,
        _session(worker, background, log) as session,
    ):
        if goes_on and session.log is not None:
            title = background.run(_go_on(session, session.log))
            if is_person:
                page.note(f"Going on with: {title}")
        code = _talk(session, background, page, gate, is_person=is_person)
        if is_person and log is not None and session.conversation.messages:
            write_error(GO_ON + again)
    return code


def _talk(session: Session, background: LoopThread, page: Page, gate: InputGate | None, *, is_person: bool) -> int:
    """Read messages and print answers until the input ends; a person who would lose the conversation is warned once."""
    is_warned = False
    while True:
        may_lose = is_person and session.log is None and bool(session.conversation.messages)
        code = 0
        try:
            line = ask_line(background) if is_person else _next_line()
        except KeyboardInterrupt:
            if not may_lose:
                raise
            line, code = None, INTERRUPTED
        if line is None:
            if is_warned or not may_lose:
                return code
            is_warned = True
            page.note(LOST)
            continue
        if not line.strip():
            continue
        is_warned = False
        try:
            error = answer(session, background, line, page, gate, counted=is_person)
        except KeyboardInterrupt:
            return INTERRUPTED
        if error is not None and not is_person:
            return INTERRUPTED if isinstance(error, RunCancelledError) else FAILED


async def _go_on(session: Session, log: EventLog) -> str:
    """Let a session go on with the conversation that was used last. Returns its title."""
    found = await list_sessions(log)
    if not found:
        raise CommandError("the log has no conversation yet: leave out --continue")
    last = found[0].last
    if last.status in ("running", "queued", "paused"):
        text = f"{last.run_id} is {last.status}: decide about it with rxworker runs, or open it in full screen"
        raise CommandError(text)
    await OpenConversation(session).read(last)
    session.labels[CONVERSATION] = found[0].id
    return title_of_session(found[0])


@contextmanager
def _session(worker: Worker, background: LoopThread, address: str | None) -> Generator[Session, None, None]:
    """A session of a worker, whose runs are stored in the log of this address."""
    if address is None:
        yield worker.session
        return
    log = background.call(lambda: open_log(address))
    try:
        yield Session(worker, log=log)
    finally:
        background.run(log.close())


def greeting(worker: Worker) -> str:
    """The first line: the model, its tools, and the keys."""
    who = f"{worker.model.name.replace('_', '-')} {worker.model.model}"
    return f"{who}, tools: {worker.tools}. Ctrl-C cancels an answer, Ctrl-D leaves."


def _next_line() -> str | None:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - closed with <&-
        return None
    return sys.stdin.readline() or None


PROMPT = "> "
STOP_SECONDS = 1.0
RESEND_SECONDS = 0.1


def ask_line(background: LoopThread) -> str | None:
    """Read the next line from the terminal; ``None`` at the end of the input.

    Args:
        background: Runs the event loop.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed.
    """
    with suppress(ImportError):
        # Once imported, input() supports line editing and a history.
        importlib.import_module("readline")
    with _resend_interrupt(background):
        print()
        try:
            return input(PROMPT)
        except EOFError:
            print()
            return None


@contextmanager
def _resend_interrupt(background: LoopThread) -> Generator[None, None, None]:
    """Send Ctrl-C again if the prompt is still open after a moment."""
    is_main = threading.current_thread() is threading.main_thread()
    if sys.platform == "win32" or not is_main:
        yield
        return
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    main, loop = threading.get_ident(), background.loop
    is_open = True

    def send_again() -> None:
        if is_open:
            signal.pthread_kill(main, signal.SIGINT)

    def on_signal() -> None:
        if signal.SIGINT in os.read(read_end, 64):
            loop.call_later(RESEND_SECONDS, send_again)

    background.call(lambda: loop.add_reader(read_end, on_signal))
    before = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    try:
        yield
    finally:
        is_open = False
        signal.set_wakeup_fd(before)
        background.call(lambda: loop.remove_reader(read_end))
        os.close(read_end)
        os.close(write_end)
