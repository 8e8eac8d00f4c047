"""The slash commands: one table, from which the help, the completion and the dispatch are made.

A line that begins with a slash and a word is a command; one that begins with two slashes is a message that begins with
one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from textual.screen import Screen

from rxworker.desk.conversation import StoredConversation
from rxworker.errors import ConfigurationError, LocalProtocolError, RxWorkerError
from rxworker.log import export_run
from rxworker.messages import Conversation, Text, ToolCall, ToolResult
from rxworker.resume.stored import read_run
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_parts, describe_result
from rxworker.ui.terminal.bars import Choice, Composer, Quit
from rxworker.ui.terminal.lanes import Lane
from rxworker.ui.terminal.session import (
    TerminalSession,
    describe_session,
    list_sessions,
    model_name,
    rename_session,
    title_of_session,
)
from rxworker.ui.terminal.themes import app_of
from rxworker.views import RunView, view_html

_COMMAND = re.compile(r"/([a-z]*)(?:\s+(.*))?$", re.DOTALL)


class SlashCommand(Struct, frozen=True):
    """A command.

    Attributes:
        name: Its name, without the slash.
        about: A description of the command.
        run: Runs it, with what follows the name.
        argument: The argument after the name; in brackets if it is optional.
        choices: Returns what may follow the name, with a note each.
    """

    name: str
    about: str
    run: Callable[[Commands, str], Awaitable[None]]
    argument: str = ""
    choices: Callable[[Commands], Awaitable[Iterable[Choice]]] | None = None


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
    """

    def __init__(
        self, screen: Screen[None], session: TerminalSession, show: Callable[[Iterable[Lane]], Awaitable[None]]
    ) -> None:
        self._screen, self._session, self._show = screen, session, show

    async def run(self, name: str, argument: str) -> bool:
        """Run a command. Returns whether it could be run; otherwise the user was shown why not."""
        command = COMMANDS.get(name)
        if command is None:
            close = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"Did you mean /{close[0]}?" if close else "/help shows all commands."
            self._warn(f"There is no command /{name}. {hint}")
            return False
        try:
            await command.run(self, argument)
        except (RxWorkerError, OSError) as error:
            self._warn(f"/{name}: {error}")
            return False
        return True

    async def go_on(self) -> bool:
        """Open the stored conversation that was used last. Returns whether that was possible."""
        try:
            stored = await list_sessions(self._session.log)
        except RxWorkerError as error:
            self._warn(str(error))
            return False
        if not stored:
            self._warn("There is no stored conversation yet.")
            return False
        return await self.run("resume", stored[0].id)

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

    # The commands.

    async def help(self, _argument: str) -> None:
        """Show the keys and commands."""
        await self._screen.run_action("app.keys")

    async def new(self, _argument: str) -> None:
        """Begin a new conversation."""
        self._check_idle()
        self._session.begin_session()
        await self._show(())

    async def resume(self, argument: str) -> None:
        """Open a stored conversation."""
        self._check_idle()
        if not argument:
            if not await self.stored_choices():
                raise LocalProtocolError("there is no other conversation yet")
            self._type("/resume ")
            return
        stored = await self._find(argument)
        await self._show(await self._session.open_session(stored))

    async def rename(self, argument: str) -> None:
        """Rename the conversation."""
        if not argument:
            raise LocalProtocolError("give the new title, as in /rename Trip to Kyoto")
        self._check_idle()
        stored = await self._current()
        if stored is None:
            raise LocalProtocolError("this conversation is empty: send a message first")
        title = one_line(argument)
        await rename_session(self._session.log, stored, title)
        self._inform(f"This conversation is called {title}.")

    async def model(self, argument: str) -> None:
        """Switch to another model. The conversation goes on."""
        self._check_idle()
        if not argument:
            self._type("/model ")
            return
        name = self._session.use_model(argument)
        self._inform(f"{name} answers from now on.")

    async def tools(self, _argument: str) -> None:
        """Show the tools, the hooks and the watchers."""
        await self._screen.run_action("details")

    async def allow(self, argument: str) -> None:
        """Allow a tool always, or end that."""
        session = self._session
        if not argument:
            self._type("/allow ")
            return
        if argument in session.allowed:
            await session.disallow(argument)
            self._inform(f"{argument} needs approval again.")
            return
        if argument not in self._tool_names():
            raise LocalProtocolError(f"there is no tool {argument}")
        await session.allow(argument)
        self._inform(f"{argument} is always allowed in this conversation.")

    async def now(self, _argument: str) -> None:
        """Wait for the message: the screen sends ``/now MESSAGE`` itself."""
        self._type("/now ")

    async def unsend(self, _argument: str) -> None:
        """Take the last message that waits back into the input."""
        text = self._session.sent.withdraw()
        if not text:
            raise LocalProtocolError("no message waits: the model has read all of them")
        self._type(text)

    async def theme(self, argument: str) -> None:
        """Switch to another theme."""
        themes = app_of(self._screen).available_themes
        if not argument:
            self._type("/theme ")
        elif argument not in themes:
            raise LocalProtocolError(f"there is no theme {argument}")
        else:
            app_of(self._screen).theme = argument

    async def copy(self, argument: str) -> None:
        """Copy the last answer, or the whole conversation."""
        conversation = self._session.current.conversation
        text = markdown_of(conversation) if argument == "all" else last_answer(conversation)
        if not text:
            raise LocalProtocolError("there is no answer yet")
        app_of(self._screen).copy_to_clipboard(text)
        self._inform(f"Copied {len(text):,} characters.")

    async def export(self, argument: str) -> None:
        """Write the conversation to a file."""
        stored = await self._current()
        if stored is None:
            raise LocalProtocolError("this conversation is empty")
        path = _path_of(argument or f"{self._session.opened.id}.md")
        log = self._session.log
        match path.suffix:
            case ".jsonl":
                data = b"".join([line for info in stored.runs async for line in export_run(log, info.run_id)])
            case ".html":
                parts = [await self._html(info.run_id) for info in stored.runs]
                data = PAGE.format("\n".join(parts)).encode("utf-8", "replace")
            case _:
                data = markdown_of(self._session.current.conversation).encode("utf-8", "replace")
        _write_new(path, data)
        self._inform(f"Written to {path}.")

    async def trace(self, _argument: str) -> None:
        """Show the trace of the last run."""
        await self._screen.run_action("trace")

    async def usage(self, _argument: str) -> None:
        """Show what this conversation takes: the dashboard `USAGE`."""
        await self._screen.run_action("usage")

    async def quit(self, _argument: str) -> None:
        """Leave."""
        self._screen.post_message(Quit(0))

    # What may follow.

    async def stored_choices(self) -> list[Choice]:
        """The stored conversations, without the present one."""
        return [
            Choice(f"/resume {each.id}", title_of_session(each), describe_session(each))
            for each in await list_sessions(self._session.log)
            if each.id != self._session.opened.id
        ]

    async def model_choices(self) -> list[Choice]:
        """The models that were given or used."""
        return _choices("model", self._session.models, [model_name(self._session.worker.model)], "answers now")

    async def tool_choices(self) -> list[Choice]:
        """The tools, first those that are always allowed."""
        allowed = self._session.allowed
        names = sorted(self._tool_names(), key=lambda name: name not in allowed)
        return _choices("allow", names, allowed, "always allowed; ends that")

    async def theme_choices(self) -> list[Choice]:
        """The themes."""
        home = app_of(self._screen)
        names = sorted(home.available_themes, key=lambda name: not name.startswith("rxworker"))
        return _choices("theme", names, [home.theme], "is used")

    def _type(self, text: str) -> None:
        self._screen.query_one(Composer).type(text)

    def _inform(self, text: str) -> None:
        self._screen.notify(clean(text), markup=False)

    def _warn(self, text: str) -> None:
        self._screen.notify(clean(text), severity="warning", markup=False)

    def _tool_names(self) -> list[str]:
        return [tool.meta.name for tool in self._session.worker.tools]

    def _check_idle(self) -> None:
        if self._session.active is not None:
            raise LocalProtocolError("a run is running: cancel it with Ctrl-C, or wait")

    async def _current(self) -> StoredConversation | None:
        stored = await list_sessions(self._session.log)
        return next((each for each in stored if each.id == self._session.opened.id), None)

    async def _find(self, sought: str) -> StoredConversation:
        stored = await list_sessions(self._session.log)
        for each in stored:
            if each.id == sought:
                return each
        named = [each for each in stored if sought.lower() in title_of_session(each).lower()]
        if len(named) != 1:
            many = f"{len(named)} conversations have" if named else "no conversation has"
            raise LocalProtocolError(f"{many} {sought!r} in the title")
        return named[0]

    async def _html(self, run_id: str) -> str:
        view = RunView()
        for record in (await read_run(self._session.log, run_id)).records:
            view.step(record)
        return view_html(view)


def _path_of(name: str) -> Path:
    return Path(name).expanduser()


def _write_new(path: Path, data: bytes) -> None:
    try:
        with path.open("xb") as file:  # never replaces a file
            file.write(data)
    except FileExistsError as error:
        raise ConfigurationError(f"{path} exists already, and is not replaced") from error


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


def _choices(command: str, names: Iterable[str], marked: Sequence[str], note: str) -> list[Choice]:
    return [Choice(f"/{command} {name}", name, note if name in marked else "") for name in names]


def _choice(command: SlashCommand) -> Choice:
    is_whole = command.choices is None and not command.argument
    space = "" if is_whole else " "
    label = f"/{command.name} {command.argument}".rstrip()
    is_optional = command.choices is None and command.argument.startswith("[")
    return Choice(f"/{command.name}{space}", label, command.about, is_whole or is_optional)


COMMANDS = {
    command.name: command
    for command in (
        SlashCommand("help", "all keys and commands", Commands.help),
        SlashCommand("new", "begin a new conversation", Commands.new),
        SlashCommand("now", "cut off the answer that is being written", Commands.now, "MESSAGE"),
        SlashCommand("unsend", "take the last message that waits back into the input", Commands.unsend),
        SlashCommand(
            "resume", "go on with a stored conversation", Commands.resume,
            "[TITLE]", Commands.stored_choices,
        ),
        SlashCommand(
            "sessions", "the stored conversations", Commands.resume,
            choices=Commands.stored_choices,
        ),
        SlashCommand("rename", "give this conversation a title", Commands.rename, "TITLE"),
        SlashCommand(
            "model", "another model answers from now on", Commands.model,
            "PROVIDER/NAME", Commands.model_choices,
        ),
        SlashCommand("tools", "tools, hooks and watchers", Commands.tools),
        SlashCommand(
            "allow", "always allow a tool here, or end that", Commands.allow,
            "TOOL", Commands.tool_choices,
        ),
        SlashCommand("trace", "turns, requests and calls of the last run in time", Commands.trace),
        SlashCommand("usage", "tokens, cost, waits and tools of this conversation", Commands.usage),
        SlashCommand("theme", "other colours", Commands.theme, "NAME", Commands.theme_choices),
        SlashCommand("copy", "copy the last answer, or all", Commands.copy, "[all]"),
        SlashCommand(
            "export", "write the conversation to a .md, .html or .jsonl file", Commands.export,
            "[FILE]",
        ),
        SlashCommand("quit", "leave the app", Commands.quit),
    )
}  # fmt: skip
