"""What the app shows."""

from __future__ import annotations

import asyncio
import re

import pytest
import reactivex
from reactivex import Observable
from textual.strip import Strip
from textual.widgets._footer import FooterKey

from rxworker import Limits, Worker, tool, worker_tool
from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Opaque,
    Record,
    ResponseEvent,
    ResponseStatus,
    Status,
    TextDelta,
)
from rxworker.hooks.ready import terminal_hooks
from rxworker.messages import Prices, StopKind, StopReason
from rxworker.providers import Request
from rxworker.testing import Call, Reply, ScriptedModel, call, fail, say, stall, think
from rxworker.tools import ToolContext
from rxworker.ui.terminal.lanes import Lanes
from rxworker.ui.terminal.transcript import VIEWS, TextView, Transcript
from tests.whole import one_of

from .conftest import Open


@tool
async def look(where: str, context: ToolContext) -> str:
    """Look somewhere."""
    context.progress(f"looks {where}")
    return "\n".join(f"line {number} of {where}" for number in range(30))


class EventModel:
    """A model that answers each request with these events."""

    name = model = "events"

    def __init__(self, events: list[ResponseEvent]) -> None:
        self._events = events

    def stream(self, request: Request) -> Observable[ResponseEvent]:
        """The events."""
        return reactivex.from_iterable(self._events)


@tool
async def wait_for_ever(context: ToolContext) -> str:
    """Wait."""
    context.progress("two of four")
    await asyncio.Event().wait()
    return "never"


async def test_questions_answers_and_what_they_cost_are_shown(open_app: Open) -> None:
    limits = Limits(prices=Prices(input=1_000.0, output=2_000.0))
    async with open_app(Worker(ScriptedModel(["Hello there!"]), limits=limits)) as person:
        await person.sees("Type a message to begin.")
        await person.ask("Hi")
        assert [(v.lane.kind, v.lane.text) for v in person.lanes] == [("user", "Hi"), ("text", "Hello there!")]
        assert "Hello there!" in person.screen
        assert "10 tokens in, 5 out · cost 0.02" in person.screen
        assert person.typed == ""


async def test_text_is_shown_while_it_streams_and_the_details_list_the_watchers(open_app: Open) -> None:
    model = ScriptedModel([say("Once upon a time") + stall()])
    async with open_app(Worker(model)) as person:
        await person.say("Tell me.", sees="Once upon a time")
        assert "answering" in person.screen
        await person.sees("1 watcher")
        await person.press("ctrl+g", sees="terminal")
        assert "coalesce" in person.screen
        await person.press("escape")
        assert "coalesce" not in person.screen


async def test_a_folded_result_unfolds_with_a_key_and_with_a_click(open_app: Open) -> None:
    model = ScriptedModel([call("look", where="here"), "Nothing."])
    async with open_app(Worker(model, tools=[look]), size=(80, 60)) as person:
        await person.ask("Look.")
        assert 'look where="here"' in person.screen
        assert "line 7 of here" in person.screen
        assert "line 8 of here" not in person.screen
        assert "22 more lines" in person.screen
        await person.press("ctrl+o")
        assert "line 29 of here" in person.screen
        await person.press("ctrl+o")
        assert "line 29 of here" not in person.screen
        await person.pilot.click("LaneView.-call")
        await person.sees("line 29 of here")


async def test_arguments_are_shown_while_they_are_written(open_app: Open) -> None:
    half = Reply(tool_calls=(Call("look", '{"where": "under the ta'),)) + stall()
    async with open_app(Worker(ScriptedModel([half]), tools=[look])) as person:
        await person.say("Look.")
        await person.sees('{"where": "under')
        assert "writes arguments" in person.screen


async def test_progress_is_shown_while_a_tool_runs(open_app: Open) -> None:
    model = ScriptedModel([call("wait_for_ever"), "Done."])
    async with open_app(Worker(model, tools=[wait_for_ever])) as person:
        await person.say("Wait.", sees="two of four")
        assert re.search(r"● \d+(\.\d)? m?s", person.screen)
        await person.press("ctrl+c")  # on leaving, the tool would have five seconds
        await person.rest()


async def test_thoughts_fold_away_when_they_are_over(open_app: Open) -> None:
    model = ScriptedModel([think("A **secret** thought.\n\n- one") + say("Yes.")])
    async with open_app(Worker(model)) as person:
        await person.ask("Think.")
        assert "▸ Thought" in person.screen
        assert "secret" not in person.screen
        await person.press("ctrl+o")
        assert "A secret thought." in person.screen
        assert "• one" in person.screen
        await person.press("ctrl+o")
        assert "secret" not in person.screen


async def test_an_attempt_that_is_retracted_is_marked(open_app: Open) -> None:
    model = ScriptedModel([say("Half a sen") + fail("busy", "overloaded"), "All of it."])
    async with open_app(Worker(model)) as person:
        await person.ask("Say it.")
        assert [view.lane.item.stage for view in person.lanes if view.lane.kind == "text"] == ["retracted", "done"]
        assert "↶ retracted" in person.screen
        assert "busy" in person.screen


async def test_further_choices_stand_below_their_number(open_app: Open) -> None:
    text = BlockType.TEXT
    events: list[ResponseEvent] = [
        Status(ResponseStatus.STARTED),
        BlockStart(0, text),
        TextDelta(0, "It is red."),
        BlockStart(1, text, choice=1),
        TextDelta(1, "It is blue.", choice=1),
        BlockStop(0, text),
        BlockStop(1, text),
        Status(ResponseStatus.COMPLETED, stop_reason=StopReason(StopKind.END_TURN)),
    ]
    async with open_app(Worker(EventModel(events))) as person:
        await person.ask("Which colour?")
        rows = [line.strip() for line in person.screen.splitlines()]
        assert rows[rows.index("It is blue.") - 1] == "Choice 2"
        assert rows.count("Choice 2") == 1
        assert "Choice" not in rows[rows.index("It is red.") - 1]


async def test_an_error_names_the_remedy_and_the_app_goes_on(open_app: Open) -> None:
    model = ScriptedModel([fail("no such key", "authentication"), "Now it works."])
    async with open_app(Worker(model)) as person:
        await person.ask("Hi")
        for text in ("The key was refused", "no such key", "Check the key"):
            assert text in person.screen
        await person.ask("And now?")
        assert "Now it works." in person.screen
        assert [view.lane.text for view in person.lanes if view.lane.kind == "user"] == ["Hi", "And now?"]


async def test_messages_of_the_hooks_of_the_terminal_are_shown(open_app: Open) -> None:
    @tool
    async def run_shell(command: str) -> str:
        """Run."""
        return command

    model = ScriptedModel([call("run_shell", command="rm -rf /"), "word " * 500])
    worker = Worker(model, tools=[run_shell], hooks=terminal_hooks())
    async with open_app(worker) as person:
        await person.ask("Clean up.")
        notes = [(view.lane.title, view.lane.text) for view in person.lanes]
        assert any("Skip" in text for title, text in notes if title == "dangerous_command_guard")
        assert any("long answer" in text for title, text in notes if title == "long_answer_notice")
        refused = next(view.lane.item for view in person.lanes if view.lane.kind == "call")
        assert refused.stage == "refused"


async def test_text_of_others_moves_no_cursor(open_app: Open) -> None:
    @tool
    async def evil() -> str:
        """Evil."""
        return "\x1b]0;owned\x07 \x9b31m \ud83d [bold]b[/bold]"

    model = ScriptedModel([say("\x1b[2J\u202eabc\r", chunk=2) + call("evil"), "# \x1b[1mDone"])
    async with open_app(Worker(model, tools=[evil])) as person:
        await person.ask("Be evil. \x1b[31m")
        assert "␛]0;owned␇" in person.screen
        assert "[bold]b[/bold]" in person.screen
        assert not any(ord(c) < 32 and c != "\n" for c in person.screen)
        assert not any(0x7F <= ord(c) < 0xA0 for c in person.screen)
        assert "\u202e" not in person.screen
        person.screen.encode()


async def test_markdown_is_drawn_when_it_is_whole_and_nothing_of_it_is_hidden(open_app: Open) -> None:
    text = "It is **so**, see [there](http://example.org/x).\n\n<script>alert(1)</script>\n"
    async with open_app(Worker(ScriptedModel([text]))) as person:
        await person.ask("Hi")
        assert "It is so, see there (http://example.org/x)." in person.screen
        assert "<script>alert(1)</script>" in person.screen
        assert person.app.current_theme.dark
        await person.press("ctrl+t")
        assert not person.app.current_theme.dark
        assert "It is so, see there" in person.screen


@pytest.mark.parametrize("size", one_of([(20, 8), (40, 12), (80, 24)]))
async def test_it_is_usable_at_many_sizes(open_app: Open, size: tuple[int, int]) -> None:
    async with open_app(Worker(ScriptedModel(["Hello."])), size=size) as person:
        await person.ask("Hi")
        assert "Hello." in person.screen
        assert "^c" in person.screen
        assert all(len(line) <= size[0] for line in person.screen.splitlines())


async def test_lines_are_broken_anew_when_the_terminal_changes(open_app: Open) -> None:
    text = " ".join(f"word{number}" for number in range(40))
    async with open_app(Worker(ScriptedModel([text]))) as person:
        await person.ask("Hi")
        before = person.lanes[-1].size
        await person.pilot.resize_terminal(40, 30)
        await person.until(lambda: person.lanes[-1].size.height > before.height)
        for number in range(40):
            assert f"word{number}" in person.screen


async def test_many_deltas_cost_few_pictures(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn follows the frames, and not the deltas."""
    drawn = list[int]()

    class Counted(TextView):
        def render_line(self, y: int) -> Strip:
            drawn.append(y)
            return super().render_line(y)

    monkeypatch.setitem(VIEWS, "text", Counted)
    model = ScriptedModel([say("word " * 16_000, chunk=4)])
    async with open_app(Worker(model)) as person:
        await person.ask("A lot.")
        view = person.lanes[-1]
        assert len(view.lane.text) == 80_000
        assert len(view.lane.pieces()) < 1_000
        assert 0 < len(drawn) < 2_000


async def test_of_very_many_parts_the_first_leave_the_screen(open_app: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.ui.terminal.transcript.MAX_LANES", 6)
    async with open_app(Worker(ScriptedModel(["Yes."] * 5))) as person:
        for number in range(5):
            await person.ask(f"Question {number}")
        assert len(person.lanes) == 6
        assert person.lanes[0].lane.text == "Question 2"


async def test_the_keys_can_be_looked_up(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        await person.press("f1", sees="insert a line break")
        await person.press("escape", sees="Type a message to begin.")


async def test_sources_stand_below_the_text_and_what_is_not_known_is_counted(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        lanes, transcript = Lanes(), person.app.query_one(Transcript)
        cited = [CitationDelta(0, {"url": f"https://a.org/{number}"}) for number in range(6)]
        events = [TextDelta(0, "So it is."), *cited, Opaque("logprobs"), Opaque("logprobs")]
        records = [Record(n, "r", 1, 1, 0.0, event) for n, event in enumerate(events, 1)]
        await transcript.show(lanes.feed(records))
        await person.sees("[4] https://a.org/3")
        assert "2 more lines" in person.screen
        await person.sees("unknown: logprobs")
        assert "2 times" in person.screen


async def test_runs_inside_runs_stand_further_to_the_right(open_app: Open) -> None:
    deep = worker_tool(Worker(ScriptedModel(["Two metres."])), name="look_up", description="Look.")
    model = ScriptedModel([call("look_up", task="How deep?"), "Shallow, it says."])
    middle = worker_tool(Worker(model, tools=[deep]), name="research", description="Find out.")
    model = ScriptedModel([call("research", task="Ponds?"), "All is found."])
    async with open_app(Worker(model, tools=[middle])) as person:
        await person.ask("Write.")
        places = [(len(view.lane.path), view.region.x) for view in person.lanes]
        assert [depth for depth, _ in places] == [0, 0, 1, 2, 1, 0]
        lefts = dict(places)
        assert lefts[0] < lefts[1] < lefts[2]


async def test_what_runs_inside_calls_at_once_stands_below_its_call(open_app: Open) -> None:
    def find_out(request: Request) -> str:
        return f"About {request.conversation.messages[-1].text}."

    research = worker_tool(Worker(ScriptedModel(find_out)), name="research", description="Find out.")
    both = call("research", task="ponds") + call("research", task="frogs")
    async with open_app(Worker(ScriptedModel([both, "Done."]), tools=[research])) as person:
        await person.ask("Write.")
        shown = [view.lane.arguments or view.lane.text for view in person.lanes]
        assert shown == ["Write.", 'task="ponds"', "About ponds.", 'task="frogs"', "About frogs.", "Done."]


async def test_keys_that_mean_nothing_are_not_offered(open_app: Open) -> None:
    model = ScriptedModel([call("look", where="here"), "Nothing."])
    async with open_app(Worker(model, tools=[look])) as person:
        assert "Unfold" not in person.screen
        await person.ask("Look.", sees="Unfold")
        shown = [*person.app.query(FooterKey)]
        person.app.screen.refresh_bindings()
        await person.pilot.pause()
        assert [*person.app.query(FooterKey)] == shown, "they are made anew only where others are active"
