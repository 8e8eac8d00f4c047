"""The bars above and below the conversation, and the input.

The bars show the model, the state of the run and its usage. In the input, Enter sends, Ctrl-J inserts a line break, and
up and down browse the messages that were sent before.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len, set_cell_size
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Key, Paste
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, OptionList, Static, TextArea
from textual.widgets.option_list import Option
from textual.widgets.text_area import Edit, EditResult, Location, Selection

from rxworker.log.values import When
from rxworker.messages import Prices
from rxworker.messages.usage import Usage
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_usage, plural
from rxworker.ui.terminal.attach import escape, is_name
from rxworker.ui.terminal.themes import app_of
from rxworker.views.amounts import money


class TwoEnds(Horizontal):
    """A line with a left and a right part; what there is no room for is cut.

    Args:
        id: The id of the widget.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(Static(markup=False), Static(markup=False), id=id)

    def show(self, *texts: str) -> None:
        """Show a text on the left, and one on the right."""
        for shown, text in zip(self.query(Static), texts, strict=False):
            if shown.content != text:
                shown.update(text)


NARROW = 70


class KeyLine(Footer):
    """The keys that are active, drawn anew only when others are: Textual does so each time that the focus moves."""

    def on_resize(self) -> None:
        """Be compact on a narrow screen, to show more keys."""
        self.compact = self.screen.size.width < NARROW

    _drawn: tuple[tuple[Binding, bool, str], ...] = ()

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the active keys of the screen, if they are others than before."""
        shown = tuple((each.binding, each.enabled, each.tooltip) for each in screen.active_bindings.values())
        if shown != self._drawn and screen is self.screen and app_of(screen).app_focus:
            self._drawn = shown
            super().bindings_changed(screen)  # pyright: ignore[reportUnknownMemberType]


def usage_line(usage: Usage, prices: Prices | None) -> str:
    """Return tokens and their cost.

    >>> usage_line(Usage(input_tokens=1000, output_tokens=100), Prices(input=3.0, output=15.0))
    '1,000 tokens in, 100 out · cost 0.0045 USD'
    """
    text = describe_usage(usage)
    if not text:
        return ""
    more = "+" if usage.is_partial else ""
    if prices is None:
        return f"{text}{more}"
    return f"{text}{more} · cost {money(prices.cost(usage), one_line(prices.currency, 12))}"


def count_line(turns: int, calls: int, watchers: int) -> str:
    """Return the counts that are not zero.

    >>> count_line(2, 1, 3), count_line(1, 0, 0)
    ('2 turns · 1 call · 3 watchers', '1 turn')
    """
    counted = ((turns, "turn"), (calls, "call"), (watchers, "watcher"))
    return " · ".join(plural(number, noun) for number, noun in counted if number)


def who_line(provider: str, model: str, tools: int) -> str:
    """Return provider, model and number of tools.

    >>> who_line("openai_chat", "m", 2)
    'openai-chat m · 2 tools'
    """
    who = one_line(f"{provider.replace('_', '-')} {model}", 60)
    return who + (f" · {plural(tools, 'tool')}" if tools else "")


MAX_REMEMBERED = 200
MAX_LINES = 10
MAX_CHARACTERS = 1_000
"""A paste that has more is folded."""
_LINE_END = re.compile("\r\n?")
MENU_KEYS = frozenset(("up", "down", "tab", "enter", "escape"))


class Choice(Struct, frozen=True):
    """A line of the completion.

    Attributes:
        text: The input when it is chosen.
        label: The text of the line.
        note: The text after it.
        is_whole: Whether the input can be sent then.
        rest: What stays in the input after the cursor.
    """

    text: str
    label: str
    note: str = ""
    is_whole: bool = True
    rest: str = ""


class CommandMenu(OptionList):
    """The commands, or what may follow one, while one is typed. The input keeps the focus.

    Attributes:
        composer: The input that takes the choices.
        choices: The choices in the list.
        text: The input that the choices are for. They follow the input a moment later.
    """

    can_focus = False

    def __init__(self) -> None:
        super().__init__(id="menu", compact=True)
        self.composer: Composer | None = None
        self.choices: list[Choice] = []
        self.text = ""

    @property
    def is_open(self) -> bool:
        """Whether there is something to choose."""
        return bool(self.choices) and bool(self.display)

    @property
    def current(self) -> Choice | None:
        """The highlighted choice."""
        at = self.highlighted
        return self.choices[at] if self.is_open and at is not None else None

    def show(self, choices: list[Choice], text: str = "") -> None:
        """Show these choices for an input; none hides the menu."""
        self.text = text
        if choices != self.choices:
            self.choices = choices
            width = max((cell_len(one_line(each.label, 44)) for each in choices), default=0)
            self.clear_options()
            self.add_options([Option(_menu_line(each, width)) for each in choices])
        self.display = bool(choices)
        if choices and self.highlighted is None:
            self.highlighted = 0

    def take(self, key: str) -> Choice | None:
        """Take one of `MENU_KEYS`. Returns the choice that it has made, if any."""
        match key:
            case "up":
                self.action_cursor_up()
            case "down":
                self.action_cursor_down()
            case "escape":
                self.show([])
            case _:
                return self.current
        return None

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Use the choice that was clicked."""
        event.stop()
        if self.composer is not None:
            self.composer.choose(self.choices[event.option_index], sends=True)
            self.composer.focus()


def _menu_line(choice: Choice, width: int) -> Text:
    label = set_cell_size(one_line(choice.label, 44), width)
    line = Text(f"{label}  ", "bold", no_wrap=True, overflow="ellipsis")
    return line.append(one_line(choice.note, 60), "not bold dim")


@dataclass
class Quit(Message):
    """The user wants to leave.

    Attributes:
        code: The exit code; that of Ctrl-C.
    """

    code: int = 130


class History:
    """The messages that were sent, and which of them the input shows."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._at = 0

    @property
    def is_shown(self) -> bool:
        """Whether the input shows one of them."""
        return self._at < len(self._sent)

    def add(self, text: str) -> None:
        """Add a message."""
        self._sent.append(text)
        del self._sent[:-MAX_REMEMBERED]
        self._at = len(self._sent)

    def may_replace(self, text: str) -> bool:
        """Whether one may take the place of the input: it is empty, or an unchanged message."""
        return bool(self._sent) and (not text or (self.is_shown and text == self._sent[self._at]))

    def step(self, by: int) -> str:
        """The message before or after the one that is shown; empty after the last."""
        self._at = max(0, self._at + by)
        return self._sent[self._at] if self.is_shown else ""


class Composer(TextArea):
    """An input that grows with its text.

    A long paste is folded: a few words in brackets stand for it, which keys delete and pass over as one.

    Attributes:
        menu: Takes the keys that choose while it is open.
        pastes: The texts that were folded, by the words that stand for them.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d", "delete_or_leave", "Leave", show=False, tooltip="Leave the app"),
        Binding("ctrl+j,shift+enter", "new_line", "New line", show=False),
    ]

    @dataclass
    class Sent(Message):
        """Enter was pressed.

        Attributes:
            text: The text of the input.
            when: When it is delivered if a run is running, as for ``Run.send``.
        """

        text: str
        when: When = "turn"

    def __init__(self) -> None:
        super().__init__(compact=True, highlight_cursor_line=False, tab_behavior="focus", id="composer")
        self.menu: CommandMenu | None = None
        self.pastes: dict[str, str] = {}
        self._history = History()

    async def _on_key(self, event: Key) -> None:
        menu = self.menu
        # Enter sends what is typed, unless the choices are those of the whole input.
        is_current = menu is not None and (event.key != "enter" or menu.text == self.text)
        if menu is not None and menu.is_open and is_current and event.key in MENU_KEYS:
            event.stop()
            event.prevent_default()
            if (choice := menu.take(event.key)) is not None:
                self.choose(choice, sends=event.key == "enter")
            return
        if event.key in ("enter", "alt+enter"):
            event.stop()
            event.prevent_default()
            if self.text.strip():
                self.post_message(self.Sent(self.text.strip(), "turn" if event.key == "enter" else "now"))
            return
        await super()._on_key(event)

    async def _on_paste(self, event: Paste) -> None:
        event.stop()
        event.prevent_default()
        self.paste(event.text)

    def action_paste(self) -> None:
        """Insert what was copied in the app."""
        self.paste(app_of(self).clipboard)

    def paste(self, text: str) -> None:
        """Insert a text without its control characters; a long one is folded.

        An ``@`` in it names no file, unless it is all of the paste.
        """
        text = clean(_LINE_END.sub("\n", text))
        lines = text.strip("\n").count("\n") + 1
        if lines > MAX_LINES or len(text) > MAX_CHARACTERS:
            text = self._fold(text, plural(lines, "line") if lines > 1 else f"{len(text):,} characters")
        elif not is_name(text.strip()):  # who pastes a text need not have read all of it
            text = escape(text)
        self._replace_via_keyboard(text, *self.selection)

    def unfold(self) -> bool:
        """Show the folded paste at the cursor, or else the last one. Returns whether there is one."""
        folded, at = self.folded, self.cursor_location
        if not folded:
            return False
        start, end = next((each for each in folded if each[0] <= at <= each[1]), folded[-1])
        self.replace(escape(self.pastes[self.get_text_range(start, end)]), start, end, maintain_selection_offset=False)
        return True

    @property
    def folded(self) -> list[tuple[Location, Location]]:
        """Where the words stand that stand for pastes."""
        if not self.pastes:
            return []
        labels = re.compile("|".join(map(re.escape, self.pastes)))
        lines = enumerate(self.text.split("\n"))
        return [((row, m.start()), (row, m.end())) for row, line in lines for m in labels.finditer(line)]

    def edit(self, edit: Edit) -> EditResult:
        """Edit the text. No edit leaves a part of the words that stand for a paste."""
        top, bottom = edit.top, edit.bottom
        for start, end in self.folded:
            if top == bottom and start < top < end:
                top = bottom = end
            elif top != bottom:
                top = start if start < top < end else top
                bottom = end if start < bottom < end else bottom
        if (top, bottom) != (edit.top, edit.bottom):
            edit = Edit(edit.text, top, bottom, edit.maintain_selection_offset)
        return super().edit(edit)

    # Textual wraps the lines once for all edits of a batch, and misses those that a later edit adds or removes; and it
    # looks up the cursor before it has moved it, in a line that may be gone. Both end the app.
    def _undo_batch(self, edits: Sequence[Edit]) -> None:
        for edit in reversed(edits):
            self.set_reactive(TextArea.selection, Selection.cursor(edit.top))
            super()._undo_batch([edit])

    def _redo_batch(self, edits: Sequence[Edit]) -> None:
        for edit in edits:
            self.set_reactive(TextArea.selection, Selection.cursor(edit.top))
            super()._redo_batch([edit])

    def _fold(self, text: str, size: str) -> str:
        """The words that stand for a paste."""
        labels = (f"[pasted {size}{f' #{n}' if n > 1 else ''}]" for n in count(1))
        label = next(each for each in labels if self.pastes.get(each, text) == text)
        self.pastes[label] = text
        for old in [*self.pastes][:-MAX_REMEMBERED]:
            del self.pastes[old]
        return label

    def choose(self, choice: Choice, *, sends: bool) -> None:
        """Take over a choice of the menu, and send it if it is whole."""
        if sends and choice.is_whole:
            self.post_message(self.Sent(choice.text.strip()))
        else:
            is_open = choice.text.endswith((" ", "/"))  # the name of a folder goes on
            self.type(choice.text if is_open else f"{choice.text} ", choice.rest)

    @property
    def ends(self) -> tuple[str, str]:
        """The text before the cursor, and that after it."""
        at, end = self.cursor_location, self.document.end
        return self.get_text_range((0, 0), at), self.get_text_range(at, end)

    def type(self, text: str, rest: str = "") -> None:
        """Replace the text, that before the cursor and that after it."""
        self.text = text + rest
        self.move_cursor((text.count("\n"), len(text) - text.rfind("\n") - 1))

    def accept(self) -> None:
        """Store the text in the history and clear the input."""
        self._history.add(self.text.strip())
        self.clear()

    def put_back(self, text: str) -> None:
        """Insert a text that could not be delivered before the current text."""
        self.type(f"{text}\n{self.text}" if self.text else text)

    def action_new_line(self) -> None:
        """Insert a line break."""
        self.insert("\n")

    def action_delete_or_leave(self) -> None:
        """Delete a character; leave if the input is empty."""
        if self.text:
            self.action_delete_right()
        else:
            self.post_message(Quit(0))

    def action_cursor_up(self, select: bool = False) -> None:
        """Move the cursor up; in the first line, show the previous message of the history."""
        if self.cursor_location[0] > 0 or select or not self._history.may_replace(self.text):
            super().action_cursor_up(select)
        else:
            self.type(self._history.step(-1))

    def action_cursor_down(self, select: bool = False) -> None:
        """Move the cursor down; in the last line, show the next message of the history."""
        last = self.cursor_location[0] == self.document.line_count - 1
        if not last or select or not self._history.is_shown or not self._history.may_replace(self.text):
            super().action_cursor_down(select)
        else:
            self.type(self._history.step(1))
