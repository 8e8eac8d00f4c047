"""The slash commands: one table, from which the help, the completion and the dispatch are made; each adds itself.

A line that begins with a slash and a word is a command; one that begins with two slashes is a message that begins with
one.
"""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import TypeAlias

from msgspec import Struct
from rich.text import Text as Drawing
from textual.screen import Screen

from rxworker.boards import Dashboard, board_text
from rxworker.desk.conversation import StoredConversation, conversation_id
from rxworker.errors import ConfigurationError, LocalProtocolError, RxWorkerError
from rxworker.hub import WatcherState
from rxworker.log import EventLog, RunInfo, export_run
from rxworker.log.values import When
from rxworker.messages import Conversation, Text, ToolCall, ToolResult
from rxworker.resume.stored import read_run
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_parts, describe_result
from rxworker.ui.terminal.bars import Choice, Composer, Quit
from rxworker.ui.terminal.dialogs import InfoScreen, draw_details, draw_keys
from rxworker.ui.terminal.lanes import Lane
from rxworker.ui.terminal.session import (
    TerminalSession,
    describe_session,
    list_sessions,
    model_name,
    rename_session,
    title_of_session,
)
from rxworker.ui.terminal.themes import app_of, plain_colours
from rxworker.ui.terminal.trace import draw_trace, trace_rows
from rxworker.views import RunView, view_html

_COMMAND = re.compile(r"/([a-z]*)(?:\s+(.*))?$", re.DOTALL)


class SlashCommand(Struct, frozen=True):
    """A command.

    Attributes:
        name: Its name, without the slash.
        about: A description of the command.
        run: Runs it, with what follows the name.
        argument: The argument after the name; in brackets if it is optional.
        choices: Returns what may follow the name, with a note each. Without an argument, the input then shows these.
    """

    name: str
    about: str
    run: RunCommand
    argument: str = ""
    choices: Callable[[Commands], Awaitable[list[Choice]]] | None = None


def parse_command(text: str) -> tuple[str, str] | None:
    """Return the name and the argument of a command; ``None`` for a message.

    >>> parse_command("/theme  nord"), parse_command("/usr/bin is full"), parse_command("//new")
    (('theme', 'nord'), None, None)
    """
    found = _COMMAND.match(text)
    return None if found is None else (found[1], (found[2] or "").strip())


class Commands:
    """Runs commands.

    Args:
        screen: The screen of the conversation.
        session: The conversation.
        show: Shows another conversation.
        dashboard: What ``/usage`` shows.

    Attributes:
        watchers: The watchers of the running run.
    """

    def __init__(
        self,
        screen: Screen[None],
        session: TerminalSession,
        show: Callable[[Iterable[Lane]], Awaitable[None]],
        dashboard: Dashboard,
    ) -> None:
        self.screen, self.session, self.show, self.dashboard = screen, session, show, dashboard
        self.watchers: tuple[WatcherState, ...] = ()

    async def run(self, name: str, argument: str) -> bool:
        """Run a command. Returns whether it could be run; otherwise the user was shown why not."""
        command = COMMANDS.get(name)
        if command is None:
            close = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"Did you mean /{close[0]}?" if close else "/help shows all commands."
            self._warn(f"There is no command /{name}. {hint}")
            return False
        try:
            if argument or command.choices is None:
                await command.run(self, argument)
            elif await command.choices(self):
                self.type(f"/{name} ")
            else:
                raise LocalProtocolError("there is none to choose yet")
        except (RxWorkerError, OSError) as error:
            self._warn(f"/{name}: {error}")
            return False
        return True

    async def go_on(self) -> None:
        """Open the stored conversation that was used last."""
        try:
            stored = await list_sessions(self.session.log)
        except RxWorkerError as error:
            self._warn(str(error))
            return
        if stored:
            await self.run("resume", stored[0].id)
        else:
            self._warn("There is no stored conversation yet.")

    async def complete(self, text: str) -> list[Choice]:
        """Return the choices for an input."""
        parsed = parse_command(text)
        if parsed is None or "\n" in text:
            return []
        name, argument = parsed
        if not re.search(r"\s", text):
            return [_choice(each) for each in COMMANDS.values() if each.name.startswith(name)]
        command = COMMANDS.get(name)
        if command is None or command.choices is None:
            return []
        sought = argument.lower()
        try:
            found = await command.choices(self)
        except RxWorkerError:  # the command itself shows why the log cannot be read
            return []
        return [each for each in found if sought in f"{each.label} {each.text}".lower()]

    def type(self, text: str) -> None:
        """Replace the input."""
        self.screen.query_one(Composer).type(text)

    def open(self, screen: InfoScreen) -> None:
        """Show a screen above the conversation."""
        app_of(self.screen).push_screen(screen)

    def inform(self, text: str) -> None:
        """Show what a command has done."""
        self.screen.notify(clean(text), markup=False)

    def _warn(self, text: str) -> None:
        self.screen.notify(clean(text), severity="warning", markup=False)

    def check_idle(self) -> None:
        """Check that no run is running.

        Raises:
            LocalProtocolError: One is.
        """
        if self.session.active is not None:
            raise LocalProtocolError("a run is running: cancel it with Ctrl-C, or wait")

    async def current(self) -> StoredConversation:
        """The stored conversation.

        Raises:
            LocalProtocolError: It is empty.
        """
        for each in await list_sessions(self.session.log):
            if each.id == self.session.opened.id:
                return each
        raise LocalProtocolError("this conversation is empty: send a message first")


RunCommand: TypeAlias = Callable[[Commands, str], Awaitable[None]]
COMMANDS: dict[str, SlashCommand] = {}


def _command(
    name: str, about: str, argument: str = "", choices: Callable[[Commands], Awaitable[list[Choice]]] | None = None
) -> Callable[[RunCommand], RunCommand]:
    """Add a function as a command."""

    def add(run: RunCommand) -> RunCommand:
        COMMANDS[name] = SlashCommand(name, about, run, argument, choices)
        return run

    return add


# What may follow a command.


async def _stored_choices(to: Commands) -> list[Choice]:
    """The stored conversations, without the present one."""
    return [
        Choice(f"/resume {each.id}", title_of_session(each), describe_session(each))
        for each in await list_sessions(to.session.log)
        if each.id != to.session.opened.id
    ]


async def _model_choices(to: Commands) -> list[Choice]:
    """The models that were given or used."""
    return _choices("model", to.session.models, [model_name(to.session.worker.model)], "answers now")


async def _tool_choices(to: Commands) -> list[Choice]:
    """The tools, first those that are always allowed."""
    allowed = to.session.allowed
    names = sorted((tool.meta.name for tool in to.session.worker.tools), key=lambda name: name not in allowed)
    return _choices("allow", names, allowed, "always allowed; ends that")


async def _theme_choices(to: Commands) -> list[Choice]:
    home = app_of(to.screen)
    names = sorted(home.available_themes, key=lambda name: not name.startswith("rxworker"))
    return _choices("theme", names, [home.theme], "is used")


def _choices(command: str, names: Iterable[str], marked: Sequence[str], note: str) -> list[Choice]:
    return [Choice(f"/{command} {name}", name, note if name in marked else "") for name in names]


def _choice(command: SlashCommand) -> Choice:
    is_whole = command.choices is None and not command.argument
    space = "" if is_whole else " "
    label = f"/{command.name} {command.argument}".rstrip()
    is_optional = command.choices is None and command.argument.startswith("[")
    return Choice(f"/{command.name}{space}", label, command.about, is_whole or is_optional)


SENDING: dict[str, When] = {"now": "now", "end": "end"}
"""When a message is delivered that stands behind a command."""


@_command("help", "all keys and commands")
async def _help(to: Commands, _: str) -> None:
    rows = [(f"/{each.name} {each.argument}", each.about) for each in COMMANDS.values()]
    to.open(InfoScreen("Help", lambda _: draw_keys(rows), is_text=True))


@_command("new", "begin a new conversation")
async def _new(to: Commands, _: str) -> None:
    to.check_idle()
    to.session.begin_session()
    await to.show(())


@_command("now", "cut off the answer that is being written", "MESSAGE")
async def _now(to: Commands, _: str) -> None:
    """Wait for the message: the screen sends what stands behind a command of `SENDING` itself."""
    to.type("/now ")


@_command("end", "send when the run would end, which goes on with it", "MESSAGE")
async def _end(to: Commands, _: str) -> None:
    to.type("/end ")


@_command("unsend", "take the last message that waits back into the input")
async def _unsend(to: Commands, _: str) -> None:
    text = to.session.sent.withdraw()
    if not text:
        raise LocalProtocolError("no message waits: the model has read all of them")
    to.type(text)


@_command("sessions", "the stored conversations", choices=_stored_choices)
@_command("resume", "go on with a stored conversation", "[TITLE]", _stored_choices)
async def _resume(to: Commands, sought: str) -> None:
    to.check_idle()
    stored = await list_sessions(to.session.log)
    found = [each for each in stored if each.id == sought]
    found = found or [each for each in stored if sought.lower() in title_of_session(each).lower()]
    if len(found) != 1:
        many = f"{len(found)} conversations have" if found else "no conversation has"
        raise LocalProtocolError(f"{many} {sought!r} in the title")
    await to.show(await to.session.open_session(found[0]))


@_command("rename", "give this conversation a title", "TITLE")
async def _rename(to: Commands, argument: str) -> None:
    if not argument:
        raise LocalProtocolError("give the new title, as in /rename Trip to Kyoto")
    to.check_idle()
    title = one_line(argument)
    await rename_session(to.session.log, await to.current(), title)
    to.inform(f"This conversation is called {title}.")


@_command("model", "another model answers from now on", "PROVIDER/NAME", _model_choices)
async def _model(to: Commands, name: str) -> None:
    to.check_idle()
    to.inform(f"{to.session.use_model(name)} answers from now on.")


@_command("tools", "tools, hooks and watchers")
async def _tools(to: Commands, _: str) -> None:
    worker = to.session.worker
    names, hooks = [tool.meta.name for tool in worker.tools], worker.hooks.list()
    to.open(InfoScreen("This run and its worker", lambda _: draw_details(to.watchers, names, hooks), is_text=True))


@_command("allow", "always allow a tool here, or end that", "TOOL", _tool_choices)
async def _allow(to: Commands, name: str) -> None:
    session = to.session
    is_allowed = name in session.allowed
    if not is_allowed and name not in session.worker.tools:
        raise LocalProtocolError(f"there is no tool {name}")
    await session.allow(name, is_allowed=not is_allowed)
    what = "needs approval again" if is_allowed else "is always allowed in this conversation"
    to.inform(f"{name} {what}.")


@_command("trace", "turns, requests and calls of the last run in time")
async def _trace(to: Commands, _: str) -> None:
    def draw(width: int) -> Drawing:
        view = to.session.lanes.view
        now = time.time() if view.end is None else view.now
        rows = trace_rows(view, now)
        if not rows:
            return Drawing("No run has begun.")
        return draw_trace(rows, now - (view.began or now), width, plain_colours(app_of(to.screen).theme_variables))

    to.open(InfoScreen("Trace of the last run", draw))


@_command("usage", "tokens, cost, waits and tools of this conversation")
async def _usage(to: Commands, _: str) -> None:
    name = to.session.opened.id

    def is_of_this(info: RunInfo) -> bool:
        return conversation_id(info) == name

    board = to.dashboard.show(to.session.log.runs(where=is_of_this))

    def draw(width: int) -> Drawing:
        return Drawing(clean(board_text(board.dashboard, board.states, width=width)))

    to.open(InfoScreen(board.dashboard.title, draw, closed=board.dispose))


@_command("theme", "other colours", "NAME", _theme_choices)
async def _theme(to: Commands, name: str) -> None:
    if name not in app_of(to.screen).available_themes:
        raise LocalProtocolError(f"there is no theme {name}")
    app_of(to.screen).theme = name


@_command("copy", "copy the last answer, or all", "[all]")
async def _copy(to: Commands, argument: str) -> None:
    conversation = to.session.opened.session.conversation
    text = markdown_of(conversation) if argument == "all" else last_answer(conversation)
    if not text:
        raise LocalProtocolError("there is no answer yet")
    app_of(to.screen).copy_to_clipboard(text)
    to.inform(f"Copied {len(text):,} characters.")


@_command("export", "write the conversation to a .md, .html or .jsonl file", "[FILE]")
async def _export(to: Commands, argument: str) -> None:
    stored, log = await to.current(), to.session.log
    name = argument or f"{stored.id}.md"
    match PurePath(name).suffix:
        case ".jsonl":
            data = b"".join([line for info in stored.runs async for line in export_run(log, info.run_id)])
        case ".html":
            parts = [view_html(await _view(log, info.run_id)) for info in stored.runs]
            data = PAGE.format("\n".join(parts)).encode("utf-8", "replace")
        case _:
            data = markdown_of(to.session.opened.session.conversation).encode("utf-8", "replace")
    to.inform(f"Written to {_write_new(name, data)}.")


def _write_new(name: str, data: bytes) -> Path:
    path = Path(name).expanduser()
    try:
        with path.open("xb") as file:  # never replaces a file
            file.write(data)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} exists already, and is not replaced") from error
    return path


async def _view(log: EventLog, run_id: str) -> RunView:
    view = RunView()
    for record in (await read_run(log, run_id)).records:
        view.step(record)
    return view


@_command("quit", "leave the app")
async def _quit(to: Commands, _: str) -> None:
    to.screen.post_message(Quit(0))


PAGE = (
    '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Conversation</title>'
    "<style>body{{font:16px/1.5 system-ui;max-width:50rem;margin:2rem auto;padding:0 1rem}}</style></head>"
    "<body>\n{}\n</body></html>\n"
)


def last_answer(conversation: Conversation) -> str:
    """Return the text of the last answer.

    >>> from rxworker.messages import Message
    >>> last_answer(Conversation((Message.user("Hi"), Message.assistant("Hello."))))
    'Hello.'
    """
    texts = (message.text for message in reversed(conversation.messages) if message.role == "assistant")
    return next((text for text in texts if text.strip()), "")


def markdown_of(conversation: Conversation) -> str:
    """Return a conversation as Markdown: a heading for each speaker, and a line for each call and result.

    >>> from rxworker.messages import Message
    >>> print(markdown_of(Conversation((Message.user("Hi"),))))
    ## User
    <BLANKLINE>
    Hi
    <BLANKLINE>
    """
    parts: list[str] = []
    speaker = ""
    for message in conversation.messages:
        is_results = all(isinstance(part, ToolResult) for part in message.content)
        if message.role != speaker and not (is_results and message.content):
            speaker = message.role
            parts.append(f"## {speaker.capitalize()}")
        for part in message.content:
            if isinstance(part, Text):
                parts.append(part.text)
            elif isinstance(part, ToolCall):
                parts.append(f"> call: {describe_call(part, 2000)}")
            elif isinstance(part, ToolResult):
                parts.append(f"> result: {describe_result(part, 2000)}")
            elif shown := describe_parts([part]):
                parts.append(shown)
    return "\n\n".join(parts) + "\n" if parts else ""
