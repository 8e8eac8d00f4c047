"""What a person can do to a run: send, cancel, pause, go on, approve, deny."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from textual.events import Key
from textual.widgets import Input, TextArea

from rxworker import Paused, Worker, before_tool_call, on_turn_end, tool, worker_tool
from rxworker.events.pause import Question
from rxworker.hooks import Pause, ToolCallContext, TurnEndContext
from rxworker.log import MemoryLog
from rxworker.messages import JsonObject, Message, ToolMeta
from rxworker.testing import Call, Reply, ScriptedModel, call, say, stall
from rxworker.tools import ClientTool, ToolContext
from rxworker.tools.reports import FileEdit, Plan, PlanStep
from rxworker.ui.terminal.dialogs import ApprovalScreen
from tests.whole import one_of

from .conftest import Open


@before_tool_call(matcher="delete")
def ask_somebody(context: ToolCallContext) -> Pause:
    """Ask."""
    return Pause(f"Delete {context.input['path']}?")


class Deleting:
    """A worker that asks before it deletes."""

    def __init__(self, *answers: Any) -> None:
        self.deleted: list[str] = []

        @tool
        async def delete(path: str) -> str:
            """Delete a file."""
            self.deleted.append(path)
            return f"{path} is gone"

        self.model = ScriptedModel(answers)
        self.worker = Worker(self.model, tools=[delete], hooks=[ask_somebody])


async def test_a_call_is_run_with_the_arguments_that_the_person_wrote(open_app: Open) -> None:
    it = Deleting(call("delete", path="a.txt"), "Done.")
    async with open_app(it.worker) as person:
        await person.ask("Clean up.", sees="delete waits for approval")
        await person.press("x", "y", "enter")  # in the middle of typing: nothing changes
        assert person.field(0) == "a.txt"
        await person.press("ctrl+e", sees="text, required")
        await person.press(*["backspace"] * 5, *"b.tx")
        for key in (Key("t", "t"), Key("ctrl+s", None)):  # without a wait in between
            person.app.post_message(key)
        await person.sees("Done.")
        assert it.deleted == ["b.txt"]
        assert 'delete path="b.txt"' in person.screen


@pytest.mark.parametrize("size", one_of([(60, 20), (80, 24), (100, 40)]))
async def test_the_buttons_of_a_long_form_are_seen_and_an_error_goes_with_the_next_key(
    open_app: Open, size: tuple[int, int]
) -> None:
    @tool(requires_approval=True)
    async def book(city: str, nights: int, guests: int = 1, window: bool = True, room: str = "", note: str = "") -> str:
        """Book a room.

        Args:
            city: Where to stay.
            nights: How many nights.
            guests: How many people stay there.
            window: With a window, if there is one.
            room: The kind of room.
            note: For the reception.
        """
        return f"{city}, {nights}"

    asked = call("book", city="Lisbon", nights=3)
    worker = Worker(ScriptedModel([asked, "Done."]), tools=[book])
    async with open_app(worker, size=size) as person:
        await person.ask("Book it.", sees="book waits for approval")
        await person.press("ctrl+e", sees="text, required")
        assert "Run ^s" in person.screen
        assert "Deny ^n" in person.screen
        await person.press("tab", "x", "ctrl+s", sees="nights is not a whole number")
        await person.press("backspace", sees="a whole number, required")
        assert "is not a whole number" not in person.screen
        await person.press("ctrl+s", sees="Done.")


async def test_a_key_in_one_packet_with_tab_goes_to_the_next_field(open_app: Open) -> None:
    """As over ssh: both keys are there before the first has moved the focus."""

    @tool(requires_approval=True)
    def book(city: str, room: str) -> str:
        """Book a room."""
        return f"{city}, {room}"

    model = ScriptedModel([call("book", city="Lisbon", room="double"), "Done."])
    async with open_app(Worker(model, tools=[book])) as person:
        await person.ask("Book it.", sees="book waits for approval")
        await person.press("ctrl+e", sees="text, required")
        for key, character in (("tab", None), ("x", "x"), ("shift+tab", None), ("y", "y")):
            person.app.post_message(Key(key, character))
        await person.press("ctrl+s", sees="Done.")
        results = model.requests[-1].conversation.messages[-1]
    assert results.tool_results[0].text == "Lisbony, doublex"


async def test_a_call_is_denied_with_a_reason_that_the_model_reads(open_app: Open) -> None:
    it = Deleting(call("delete", path="a.txt"), "Then not.")
    async with open_app(it.worker) as person:
        await person.ask("Clean up.", sees="delete waits for approval")
        person.app.screen.query_one("#why", Input).value = "I need it"
        await person.press("ctrl+n", sees="Then not.")
        assert it.deleted == []
        assert "⊘ not run" in person.screen
        results = person.app.session.opened.session.conversation.messages[2].tool_results
        assert [(result.is_error, result.text) for result in results] == [(True, "I need it")]


async def test_a_decision_can_wait_and_what_is_typed_meanwhile_approves_nothing(open_app: Open) -> None:
    it = Deleting(call("delete", path="a.txt"), "Done.")
    async with open_app(it.worker) as person:
        await person.ask("Clean up.", sees="delete waits for approval")
        await person.press("escape")
        await person.say("Hm, wait.", sees="delete waits for approval")
        assert it.deleted == []
        assert person.typed == "Hm, wait."
        await person.press("escape", "ctrl+r")
        await person.press("ctrl+s", sees="Done.")
        assert it.deleted == ["a.txt"]


@pytest.mark.parametrize("key", one_of(["ctrl+c", "escape", "ctrl+d"]))
async def test_a_key_that_leaves_closes_a_dialog_and_decides_nothing(open_app: Open, key: str) -> None:
    it = Deleting(call("delete", path="a.txt"), "Done.")
    async with open_app(it.worker) as person:
        await person.ask("Clean up.", sees="delete waits for approval")
        await person.press(key)
        assert person.app.screen is person.app.conversation
        assert person.app.session.waiting is not None
        await person.press("f1", key)
        assert person.app.screen is person.app.conversation
        assert person.app.is_running
    assert it.deleted == []


async def test_arguments_are_fields_of_the_types_that_the_tool_has(open_app: Open) -> None:
    sent: list[object] = []

    @tool(requires_approval=True)
    async def send_mail(to: str, body: str, tags: list[str], copies: int = 1, urgent: bool = False) -> str:
        """Send a mail.

        Args:
            to: The address.
            body: The text.
            tags: Words.
            copies: How many.
            urgent: Whether it is urgent.
        """
        sent.append((to, body, tags, copies, urgent))
        return "sent"

    asked = call("send_mail", to="a\u202eb", body="Dear Ada,\n\nsee you.", tags=["x"])
    async with open_app(Worker(ScriptedModel([asked, "Done."]), tools=[send_mail]), (90, 40)) as person:
        await person.ask("Go.", sees="send_mail waits for approval")
        shown = [line.strip(" │▌") for line in person.screen.splitlines()]
        assert [line for line in shown if line.startswith(("to ", "body", "Dear", "see", "copies"))] == [
            'to          "a\\u202eb"',
            "body        Dear Ada,",
            "see you.",
        ]
        await person.press("ctrl+e", sees="whole number, optional. How many.")
        for at, text, problem in (
            (0, '"a', "to is not text"),
            (2, '["x", 1]', "tags[1] is not text"),
            (3, "two", "copies is not a whole number"),
            (3, "true", "copies is not a whole number"),
            (4, "yes", "urgent is not a boolean (true or false)"),
        ):
            before = person.field(at)
            person.app.screen.query_one(f"#field-{at}", TextArea).text = text
            await person.press("ctrl+s")
            await person.sees(problem)
            person.app.screen.query_one(f"#field-{at}", TextArea).text = before
        assert not sent
        person.app.screen.query_one("#field-3", TextArea).text = "2"
        await person.press("ctrl+s", sees="Done.")
    assert sent == [("a\u202eb", "Dear Ada,\n\nsee you.", ["x"], 2, False)]


@pytest.mark.parametrize("size", one_of([(40, 12), (80, 24)]))
async def test_all_that_is_decided_about_can_be_seen(open_app: Open, size: tuple[int, int]) -> None:
    it = Deleting(call("delete", path="a.txt") + call("delete", path="b.txt"), "Done.")
    async with open_app(it.worker, size=size) as person:
        await person.ask("Clean up.", sees="delete waits for approval, and 1 more")
        for text in ("Delete a.txt?", "path        a.txt", "Run ^s", "Edit ^e", "Deny ^n", "Later esc"):
            assert text in person.screen


async def test_no_dialog_opens_in_the_middle_of_typing(open_app: Open) -> None:
    typing = asyncio.Event()

    @before_tool_call
    async def ask_later(context: ToolCallContext) -> Pause:
        context.send_message("thinks about it")
        await typing.wait()
        return Pause("Really?")

    it = Deleting(call("delete", path="a.txt"), "Done.")
    it.worker.hooks.clear()
    it.worker.hooks.add(ask_later)
    async with open_app(it.worker) as person:
        await person.say("Clean up.", sees="thinks about it")
        await person.press("h", "m")
        typing.set()
        await person.rest()
        assert not isinstance(person.app.screen, ApprovalScreen)
        assert person.typed == "hm"
        await person.press("ctrl+r")
        assert isinstance(person.app.screen, ApprovalScreen)


async def test_ctrl_c_cancels_the_answer_and_the_conversation_is_kept(open_app: Open) -> None:
    model = ScriptedModel([say("Once upon a time") + stall(), "Still here."])
    worker = Worker(model)
    async with open_app(worker) as person:
        await person.say("Tell me.", sees="Once upon a time")
        await person.press("ctrl+c")
        await person.rest()
        assert "cancelled" in person.screen
        assert [message.text for message in person.app.session.opened.session.conversation.messages] == [
            "Tell me.",
            "Once upon a time",
        ]
        await person.ask("And now?")
        assert "Still here." in person.screen


@pytest.mark.parametrize(("key", "code"), one_of([("ctrl+c", 130), ("ctrl+d", 0), ("ctrl+q", 0)]))
async def test_at_rest_it_is_left_with_a_key(open_app: Open, key: str, code: int) -> None:
    async with open_app(Worker(ScriptedModel([]))) as person:
        await person.pilot.press(key)
        await person.until(lambda: not person.app.is_running)
    assert person.app.return_code == code


async def test_leaving_cancels_the_run_first(open_app: Open) -> None:
    worker = Worker(ScriptedModel([say("Once") + stall()]))
    async with open_app(worker) as person:
        await person.say("Tell me.", sees="Once")
        await person.press("ctrl+q")
        await person.is_notified("This conversation is not stored.")
        assert person.app.session.status == "answering"
        await person.pilot.press("ctrl+q")
        await person.until(lambda: not person.app.is_running)
    assert worker.session.conversation.messages[-1].text == "Once"


@pytest.mark.parametrize("keys", one_of([["ctrl+c"], ["ctrl+d"], ["ctrl+q"], [*"/quit", "enter"]]))
async def test_a_conversation_that_is_not_stored_is_lost_only_when_leaving_is_confirmed(
    open_app: Open, keys: list[str]
) -> None:
    async with open_app(Worker(ScriptedModel(["Yes.", "No."]))) as person:
        for question in ("One?", "Two?"):  # each run is a reason to ask again
            await person.ask(question)
            person.app._notifications.clear()
            await person.press(*keys)
            await person.is_notified("This conversation is not stored.")
            assert person.app.is_running
        await person.pilot.press(*keys)
        await person.until(lambda: not person.app.is_running)


async def test_a_stored_conversation_is_left_at_once(open_app: Open) -> None:
    async with MemoryLog() as log, open_app(Worker(ScriptedModel(["Yes."]), log=log)) as person:
        await person.ask("One?")
        await person.pilot.press("ctrl+d")
        await person.until(lambda: not person.app.is_running)


@pytest.mark.parametrize("command", ["", "/end "])
async def test_what_is_typed_while_a_run_is_on_is_sent_into_it(open_app: Open, command: str) -> None:
    @tool
    async def wait(context: ToolContext) -> str:
        """Wait until somebody has said something."""
        context.progress("waits")
        await said.wait()
        return "waited"

    said = asyncio.Event()
    worker = Worker(ScriptedModel([call("wait"), "Well.", "I heard you."]), tools=[wait])
    async with open_app(worker) as person:
        await person.say("Wait.", sees="waits")
        await person.say(f"{command}Faster!", sees="queued: Faster!")
        said.set()
        await person.rest()
        assert [view.lane.text for view in person.lanes if view.lane.kind == "user"] == ["Wait.", "Faster!"]
        assert "queued" not in person.screen
        texts = [message.text for message in person.app.session.opened.session.conversation.messages]
        assert texts[-3:] == ["Well.", "Faster!", "I heard you."] if command else texts[-2:] == ["Faster!", "Well."]


@pytest.mark.parametrize("by", ["alt+enter", "/now"])
async def test_a_message_that_waits_is_withdrawn_and_cuts_off_the_answer(open_app: Open, by: str) -> None:
    async with open_app(Worker(ScriptedModel([say("Once") + stall(), "Yes."]))) as person:
        await person.say("Go.", sees="Once")
        await person.say("/unsend")
        await person.is_notified("no message waits")
        await person.say("Stop", sees="queued: Stop")
        await person.say("/unsend")
        await person.until(lambda: person.typed == "Stop")
        assert "queued" not in person.screen
        if by == "/now":
            await person.say("/now Stop")
        else:
            await person.press(by)
        await person.rest()
        assert [view.lane.text for view in person.lanes if view.lane.kind == "user"] == ["Go.", "Stop"]
        texts = [message.text for message in person.app.session.opened.session.conversation.messages]
        assert texts == ["Go.", "Once", "Stop", "Yes."]
        assert person.typed == ""


async def test_a_message_just_as_a_run_ends_begins_the_next(open_app: Open) -> None:
    worker = Worker(ScriptedModel(["One.", "Two."]))
    async with open_app(worker) as person:
        session = person.app.session
        person.app.conversation.deliver("first")
        assert session.active is not None
        await session.active
        session.send(Message.user("second"), "second")  # it has ended, and the screen does not know yet
        await person.sees("Two.")
        await person.rest()
        assert [message.text for message in person.app.session.opened.session.conversation.messages] == [
            "first",
            "One.",
            "second",
            "Two.",
        ]


async def test_a_run_pauses_and_goes_on(open_app: Open) -> None:
    @tool
    async def step(context: ToolContext) -> str:
        """Take a step."""
        context.progress("steps")
        await go.wait()
        return "stepped"

    go = asyncio.Event()
    worker = Worker(ScriptedModel([call("step"), "Arrived."]), tools=[step])
    async with open_app(worker) as person:
        await person.say("Go.", sees="steps")
        await person.press("ctrl+p", sees="pausing")
        go.set()
        await person.rest()
        assert "paused" in person.screen
        assert "Paused" in person.screen
        assert "Arrived." not in person.screen
        await person.press("ctrl+r", sees="Arrived.")
        assert "Was paused" in person.screen


async def test_a_message_to_a_paused_turn_goes_on_with_it(open_app: Open) -> None:
    @on_turn_end
    def check(context: TurnEndContext) -> Pause | None:
        return Pause("Is it good?") if context.text == "Draft." else None

    worker = Worker(ScriptedModel(["Draft.", "Better."]), hooks=[check])
    async with open_app(worker) as person:
        await person.ask("Write.", sees="Is it good?")
        assert isinstance(person.app.session.paused, Paused)
        await person.ask("No, write it better.")
        assert "Better." in person.screen
        texts = [message.text for message in person.app.session.opened.session.conversation.messages]
        assert texts == ["Write.", "Draft.", "No, write it better.", "Better."]
        assert "20 tokens in, 10 out" in person.screen


async def test_a_call_that_only_a_client_can_run_fails_when_the_run_is_resumed(open_app: Open) -> None:
    open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"}))
    worker = Worker(ScriptedModel([call("open_tab"), "It is not open."]), tools=[open_tab])
    async with open_app(worker) as person:
        await person.ask("Open it.", sees="open_tab runs in the client")
        await person.ask("Go on.")
        assert "It is not open." in person.screen


async def test_a_message_may_have_several_lines(open_app: Open) -> None:
    worker = Worker(ScriptedModel(["Yes."]))
    async with open_app(worker) as person:
        await person.press("a", "ctrl+j", "b", "enter")
        await person.rest()
        assert person.app.session.opened.session.conversation.messages[0].text == "a\nb"


async def test_what_was_sent_before_comes_back_with_the_arrow(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel(["Yes.", "No."]))) as person:
        await person.ask("first")
        await person.ask("second")
        await person.press("up", "up")
        assert person.typed == "first"
        await person.press("down")
        assert person.typed == "second"
        await person.press("down")
        assert person.typed == ""


async def test_text_that_was_marked_is_copied_and_the_app_goes_on(open_app: Open) -> None:
    async with open_app(Worker(ScriptedModel(["Copy these words."]))) as person:
        await person.ask("Say something.")
        answer = person.lanes[-1]
        left, top = answer.content_region.offset
        await person.pilot.mouse_down(offset=(left + 5, top))
        await person.pilot.hover(offset=(left + 9, top))
        await person.pilot.mouse_up(offset=(left + 9, top))
        assert person.app.screen.get_selected_text() == "these"
        await person.press("ctrl+c")
        assert person.app.clipboard == "these"
        assert person.app.is_running
        assert not person.app.screen.get_selected_text()


async def test_free_text_arguments_can_be_changed(open_app: Open) -> None:
    ran: list[str] = []

    class Shell:
        """A tool that takes a text as it is."""

        meta = ToolMeta(
            "shell", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}}, format="text"
        )

        async def execute(self, arguments: str | bytes, context: ToolContext) -> str:
            ran.append(msgspec.json.decode(arguments)["command"])
            return "done"

    @before_tool_call
    def ask(context: ToolCallContext) -> Pause:
        return Pause("Run it?")

    model = ScriptedModel([Reply(tool_calls=(Call("shell", "rm -r a"),)), "Done."])
    async with open_app(Worker(model, tools=[Shell()], hooks=[ask])) as person:
        await person.ask("Clean up.", sees="shell waits for approval")
        assert person.field(0) == "rm -r a"
        await person.press("ctrl+e", "backspace", "b", "ctrl+s", sees="Done.")
        assert ran == ["rm -r b"]


async def test_an_edit_of_a_file_is_shown_as_a_diff_before_and_after_it_is_made(open_app: Open) -> None:
    @tool(requires_approval=True)
    async def edit(path: str, old_string: str, new_string: str, context: ToolContext) -> str:
        """Edit a file."""
        context.progress(FileEdit(path, "one\ntwo\nmore\n", "one\n2\n"))
        context.progress(Plan((PlanStep("Edit it", "completed"), PlanStep("Look at it"))))
        return "--- a\n+++ b\n@@ -1 +1 @@\n-old line\n+new line"

    asked = call("edit", path="a.py", old_string="x = 1", new_string="x = 2")
    worker = Worker(ScriptedModel([asked, "Done."]), tools=[edit])
    async with open_app(worker, size=(90, 40)) as person:
        await person.ask("Change it.", sees="edit waits for approval")
        assert all(text in person.screen for text in ("a.py +1 -1", "-x = 1", "+x = 2"))
        await person.press("ctrl+s", sees="Done.")
        for text in ("a.py +2 -1", "-2", "+two", "+more", "✓ Edit it", "○ Look at it", "+new line"):
            assert text in person.screen


async def test_a_pause_by_request_approves_no_call_that_a_hook_paused_at(open_app: Open) -> None:
    """A hook pauses the run before the requested pause comes: to resume is to decide about the call."""
    it = Deleting(call("delete", path="a.txt"), "Then not.")

    @before_tool_call(name="first", priority=1)
    async def wait(context: ToolCallContext) -> None:
        reached.set()
        await go.wait()

    reached, go = asyncio.Event(), asyncio.Event()
    it.worker.hooks.add(wait)
    async with open_app(it.worker) as person:
        await person.say("Clean up.")
        await reached.wait()
        await person.press("ctrl+p")
        go.set()
        await person.rest()
        if not isinstance(person.app.screen, ApprovalScreen):
            await person.press("ctrl+r")
        await person.sees("delete waits for approval")
        assert it.deleted == []
        await person.press("ctrl+n", sees="Then not.")
        assert it.deleted == []


async def test_two_calls_of_one_id_are_decided_about_one_by_one(open_app: Open) -> None:
    calls = tuple([Call("delete", {"path": path}, "x") for path in ("a.txt", "b.txt")])
    it = Deleting(Reply(tool_calls=calls), "One of them.")
    async with open_app(it.worker) as person:
        await person.ask("Clean up.", sees="Delete a.txt?")
        await person.press("ctrl+n")
        # The conversation shows the question a moment before the dialog.
        await person.until(lambda: isinstance(person.app.screen, ApprovalScreen) and "Delete b.txt?" in person.screen)
        await person.press("ctrl+s", sees="One of them.")
        assert it.deleted == ["b.txt"]


async def test_calls_inside_calls_are_decided_about_one_by_one(open_app: Open) -> None:
    both = [Deleting(call("delete", path=path), "Inside.") for path in ("a.txt", "b.txt")]
    asks = [worker_tool(it.worker, name=f"ask_{at}", description="Ask.") for at, it in enumerate(both)]
    model = ScriptedModel([call("ask_0", task="?") + call("ask_1", task="?"), "Some of it."])
    async with open_app(Worker(model, tools=asks)) as person:
        await person.ask("Clean up.", sees="Delete a.txt?")
        assert "(in ask_0)" in person.screen
        await person.press("ctrl+n")
        await person.until(lambda: isinstance(person.app.screen, ApprovalScreen) and "(in ask_1)" in person.screen)
        await person.press("ctrl+s", sees="Some of it.")
    assert [it.deleted for it in both] == [[], ["b.txt"]]


@pytest.mark.parametrize(("is_answered", "is_late"), [(True, False), (False, False), (True, True)])
async def test_a_question_of_a_tool_is_answered_in_its_form(open_app: Open, is_answered: bool, is_late: bool) -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"guests": {"type": "integer", "minimum": 1}, "on": {"type": "string", "default": "Friday"}},
        "required": ["guests"],
    }

    @tool(background=is_late)
    async def book(context: ToolContext) -> str:
        """Book."""
        if context.begun is None:
            context.ask(Question("tides", "How many?", schema))
        reply = context.begun.reply
        assert reply is not None
        return f"{reply.action} {reply.content}"

    model = ScriptedModel([call("book"), *(["I wait."] if is_late else []), "Done."])
    async with open_app(Worker(model, tools=[book])) as person:
        await person.ask("Go.", sees="book has a question")
        assert "tides has a question: How many?" in person.screen
        await person.sees("whole number, minimum 1, required.")
        await person.press("ctrl+s", sees="guests is missing")
        await person.press("0", "ctrl+s", sees="guests is below 1")
        if is_answered:
            assert (person.field(0), person.field(1)) == ("0", "Friday")
            await person.press("backspace", "2")
        await person.press("ctrl+s" if is_answered else "ctrl+n", sees="Done.")
    last = model.requests[-1].conversation.messages[-1]
    text = last.text.partition("\n")[2] if is_late else last.tool_results[0].text
    assert text == ("accept {'guests': 2, 'on': 'Friday'}" if is_answered else "decline {}")
