"""What is pasted into the input: folded where it is long, and without its control characters."""

from __future__ import annotations

from typing import Any

from textual.events import Paste

from rxworker import Worker
from rxworker.testing import ScriptedModel, say, stall
from rxworker.ui.terminal.bars import Composer
from tests.whole import IS_WHOLE

from .conftest import Open

LONG = "\n".join(f"line {number} of @many" for number in range(42))
FOLDED = "[pasted 42 lines]"


async def paste(person: Any, text: str) -> None:
    """Paste as a terminal does, whose lines end with a carriage return."""
    person.app.post_message(Paste(text.replace("\n", "\r")))
    await person.pilot.pause()


TYPED = [
    ("one line", "one line"),
    ("\n".join("0123456789"), "\n".join("0123456789")),
    ("\n".join("01234567890"), "[pasted 11 lines]"),
    ("x" * 1000, "x" * 1000),
    ("x" * 1001, "[pasted 1,001 characters]"),
    (f"a\n{'x' * 1000}\n", "[pasted 2 lines]"),
    ("red \x1b[31m\x07\x9b bell", "red ␛[31m␇� bell"),
    ("@notes.txt", "@notes.txt"),
    ('@"my notes.txt"', '@"my notes.txt"'),
    ("@dataclass\nclass Frog:", "@@dataclass\nclass Frog:"),
    ("Fix it: @~/.ssh/id_rsa", "Fix it: @@~/.ssh/id_rsa"),
    ("@a @b", "@@a @@b"),
    # What is hidden is removed before a name is looked for.
    ("see\u200e \u200f@\u061c.env", "see @@.env"),
]


async def test_a_long_paste_is_folded(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        for text, typed in TYPED:
            person.app.query_one(Composer).text = ""
            await paste(person, text)
            assert person.typed == typed


async def test_a_folded_paste_is_sent_whole_and_comes_back_folded(open_app: Open) -> None:
    model = ScriptedModel(["Yes.", "Again."])
    async with open_app(Worker(model)) as person:
        await person.press(*"See ")
        await paste(person, LONG)
        await person.press(*" and ")
        await paste(person, LONG)
        await paste(person, LONG.upper())
        await person.press("!")
        typed = f"See {FOLDED} and {FOLDED}[pasted 42 lines #2]!"
        assert person.typed == typed
        await person.press("enter")
        await person.rest()
        await person.press("up")
        assert person.typed == typed
        await person.press("enter")
        await person.rest()
    for request in model.requests:
        texts = [each.text for each in request.conversation.messages if each.role == "user"]
        assert texts[-1] == f"See {LONG} and {LONG}{LONG.upper()}!"


PRESSED = [
    (["backspace"], "ab"),
    (["left", "left", "backspace"], "ab"),
    (["left", "left", "x"], f"a{FOLDED}xb"),
    (["home", "right", "delete"], "ab"),
    (["home", "right", "right", "ctrl+k"], "a"),
    (["shift+left", "x"], "axb"),
    (["backspace", "ctrl+z"], f"a{FOLDED}b"),
]


async def test_keys_take_a_folded_paste_as_one(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        for keys, typed in PRESSED:
            person.app.query_one(Composer).text = ""
            await person.press("a", "b", "left")
            await paste(person, LONG)
            await person.press(*keys)
            assert person.typed == typed, keys


async def test_a_folded_paste_is_unfolded_with_a_key_and_sent_as_it_was(open_app: Open) -> None:
    model = ScriptedModel(["Yes."])
    async with open_app(Worker(model)) as person:
        await paste(person, LONG)
        await person.sees("^o Unfold")
        await paste(person, LONG.upper())
        await person.press("home", "ctrl+o")
        assert person.typed == LONG.replace("@", "@@") + "[pasted 42 lines #2]"
        await person.press("ctrl+o")
        assert "[" not in person.typed
        await person.press("enter")
        await person.rest()
    assert model.requests[0].conversation.messages[0].text == LONG + LONG.upper()


async def test_a_paste_into_a_message_that_is_not_read_comes_back_folded(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([say("Once") + stall()]))) as person:
        await person.say("Tell me.", sees="Once")
        await paste(person, LONG)
        await person.press("enter", sees=f"queued: {FOLDED}")
        await person.press("ctrl+c")
        await person.rest()
        assert person.typed == FOLDED


async def test_keys_and_pastes_reach_the_input_while_a_part_has_the_focus(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        person.app.screen.set_focus(None)
        await person.press("h", "i")
        assert person.typed == "hi"
        person.app.screen.set_focus(None)
        await paste(person, " there")
        assert person.typed == "hi there"
        assert person.app.query_one(Composer).has_focus


UNDONE = [
    ("ctrl+o", "ctrl+z"),
    ("ctrl+o", "x", "backspace", "ctrl+z", "ctrl+z", "ctrl+z"),
    ("ctrl+o", "ctrl+j", "ctrl+j", "ctrl+z", "ctrl+z", "ctrl+z"),
    ("space", "ctrl+o", "backspace", "ctrl+z", "ctrl+z"),
    ("ctrl+o", "ctrl+u", "ctrl+z", "ctrl+z"),
]


async def test_an_unfolded_paste_is_undone_and_done_again_in_any_order(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        for at, keys in enumerate(UNDONE):
            composer = person.app.query_one(Composer)
            several = ((), ("a", "ctrl+j", "b"))
            for before in several if IS_WHOLE else several[at % 2 :][:1]:
                composer.load_text("")
                await person.press(*before)
                await paste(person, LONG)
                await person.press(*keys)
                composer.redo()
                composer.undo()
                composer.redo()
                lines = composer.text.split("\n")
                assert composer.wrapped_document.height >= len(lines)
                assert composer.cursor_location <= composer.document.end
            await person.press("!")
            assert "!" in person.typed
