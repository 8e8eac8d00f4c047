"""Which hooks are asked when a paused run goes on: one rule for all points, all decisions and all ways to resume."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from rxworker import (
    Answer,
    Approve,
    Deny,
    Finished,
    Paused,
    RunResult,
    Worker,
    after_tool_call,
    before_tool_call,
    on_turn_end,
    tool,
    worker_tool,
)
from rxworker.errors import HookError, LocalProtocolError
from rxworker.events import PausedCall, Record, RunPause, ToolStart, ToolStop
from rxworker.events.pause import Question
from rxworker.hooks import (
    Continue,
    ContinueWithMessages,
    Hook,
    HookContext,
    Pause,
    Skip,
    ToolCallContext,
    ToolResultContext,
    TurnEndContext,
    chain,
)
from rxworker.hooks.decorate import HookLike
from rxworker.messages import JsonObject, Message, ToolCall
from rxworker.testing import Call, Reply, ScriptedModel, call, lint
from rxworker.tools import Tool, ToolContext
from rxworker.worker import Decision, load_paused, save_paused
from tests.pauses import pause_of
from tests.runs import finish_of

ASKED: list[str] = []
RAN: list[str] = []

PAUSES = ("hook", "requires_approval", "turn end", "run.pause()")
PLACES = ("in process", "saved and loaded", "nested")
DECISIONS: dict[str, Decision | None] = {
    "plain resume": None,
    "Approve": Approve(),
    "Approve(input)": Approve(input={"task": "edited"}),
    "Deny": Deny("no"),
    "Answer": Answer("known"),
}
# Who is asked when the run goes on.
EXPECTED: dict[tuple[str, str], list[str]] = {
    ("hook", "plain resume"): ["last"],
    ("hook", "Approve"): ["last"],
    ("hook", "Approve(input)"): ["first", "last"],
    ("requires_approval", "plain resume"): [],
    ("requires_approval", "Approve"): [],
    ("requires_approval", "Approve(input)"): ["first", "last"],
    ("run.pause()", "plain resume"): ["first", "last"],
    ("run.pause()", "Approve"): ["first", "last"],
    ("run.pause()", "Approve(input)"): ["first", "last"],
    ("turn end", "plain resume"): ["last"],
}


@pytest.fixture(autouse=True)
def forget() -> None:
    ASKED.clear()
    RAN.clear()


def asked(name: str, verdict: object = None, point: str = "before_tool_call") -> Hook[HookContext]:
    def look(context: HookContext) -> object:
        ASKED.append(name)
        return verdict

    return Hook(look, point, name=name)  # type: ignore[arg-type]


def hooks_of(pause: str) -> list[HookLike]:
    if pause == "turn end":
        return [
            asked("first", point="on_turn_end"),
            asked("ask", Pause("sure?"), "on_turn_end"),
            asked("last", point="on_turn_end"),
        ]
    asks = [asked("ask", Pause("may I?"))] if pause == "hook" else []
    return [asked("first"), *asks, asked("last"), asked("seen", point="after_tool_call")]


def tool_of(place: str, pause: str) -> Tool:
    needs_approval = pause == "requires_approval"
    if place == "nested":
        inner = Worker(ScriptedModel([call("step"), "noted"] * 2), tools=[step], hooks=[asked("inner")])
        return worker_tool(inner, name="note", description="Note it.", requires_approval=needs_approval)

    @tool(requires_approval=needs_approval)
    async def note(task: str) -> str:
        """Write a note."""
        RAN.append(task)
        return "noted"

    return note


@tool
async def step() -> str:
    """A step of the worker inside."""
    RAN.append("step")
    return "done"


async def paused_by(pause: str, place: str) -> tuple[Worker, Paused[None]]:
    first = "Is that all?" if pause == "turn end" else call("note", task="as asked")
    worker = Worker(ScriptedModel([first, "Done."]), tools=[tool_of(place, pause)], hooks=hooks_of(pause))
    run = worker.run("go")
    if pause == "run.pause()":
        run.pause()
    paused = await pause_of(run)
    ASKED.clear()
    if place == "saved and loaded":
        paused = load_paused(save_paused(paused, key=b"k"), key=b"k")
        worker = Worker(ScriptedModel(["Done."]), tools=[tool_of(place, pause)], hooks=hooks_of(pause))
    return worker, paused


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("pause", PAUSES)
async def test_which_hooks_run_again(pause: str, decision: str, place: str) -> None:
    worker, paused = await paused_by(pause, place)
    decided = DECISIONS[decision]
    if pause == "turn end" and decided is not None:
        with pytest.raises(LocalProtocolError, match="no pending call"):
            worker.resume(paused, decisions={"call_1_1": decided})
        assert isinstance(await worker.resume(paused), Finished)
        return
    run = worker.resume(paused, decisions=decided and {paused.pending[0].id: decided})
    await finish_of(run)
    runs = pause != "turn end" and decision not in ("Deny", "Answer")
    ahead = [name for name in ASKED if name in ("first", "ask", "last")]
    assert ahead == EXPECTED.get((pause, decision), [])
    # The worker inside asks its own hooks, and results are seen whoever gave them.
    assert ASKED.count("inner") == (runs and place == "nested")
    assert ASKED.count("seen") == (pause != "turn end" and decision != "Deny")
    ran = {"Approve(input)": "edited"}.get(decision, "as asked")
    assert ([] if not runs else ["step"] if place == "nested" else [ran]) == RAN
    assert lint([record async for record in run]) == []


# --- the two ways in which a guard was stepped over


def guarded(*answers: object, hooks: tuple[HookLike, ...]) -> Worker:
    @tool
    async def shell(command: str) -> str:
        """Run a command."""
        RAN.append(command)
        return "ran"

    return Worker(ScriptedModel(list(answers)), tools=[shell], hooks=hooks)  # type: ignore[arg-type]


@before_tool_call
def ask(context: ToolCallContext) -> Pause:
    return Pause("may I?")


@before_tool_call
def guard(context: ToolCallContext) -> Skip | None:
    return Skip("forbidden") if "rm -rf" in str(context.input["command"]) else None


@pytest.mark.parametrize("hooks", [(ask, guard), (guard, ask)])
async def test_a_guard_runs_for_what_a_person_has_edited(hooks: tuple[HookLike, ...]) -> None:
    worker = guarded(call("shell", command="ls"), "Done.", hooks=hooks)
    await worker.run("go")
    edit = Approve(input={"command": "rm -rf /"})
    result = await worker.resume(decisions={"call_1_1": edit})
    assert result.conversation.messages[2].tool_results[0].text == "forbidden"
    assert RAN == []


@pytest.mark.parametrize("commands", [["rm -rf /"], ["ls", "rm -rf /"]])
async def test_a_guard_behind_the_hook_that_paused_runs_for_all_that_a_person_approves(commands: list[str]) -> None:
    """Also for a call after the one that paused, which no hook has seen."""
    calls = Reply(tool_calls=tuple(Call("shell", {"command": each}) for each in commands))
    worker = guarded(calls, "Done.", hooks=(ask, guard))
    paused = await pause_of(worker.run("go"))
    await finish_of(worker.resume(decisions={each.id: Approve() for each in paused.pending}))
    assert commands[:-1] == RAN


async def test_hooks_run_again_for_an_approved_call_only_if_it_was_edited() -> None:
    @before_tool_call
    def ask_about_b(context: ToolCallContext) -> Pause | None:
        ASKED.append(str(context.input["command"]))
        return Pause("b?") if context.input["command"] == "b" else None

    calls = call("shell", command="a") + call("shell", command="b")
    worker = guarded(calls, "Done.", hooks=(guard, ask_about_b))
    paused = await pause_of(worker.run("go"))
    assert paused.pause.at == 1
    ASKED.clear()
    edit: JsonObject = {"command": "rm -rf /"}
    await worker.resume(decisions=[Approve(input=edit), Approve()])
    assert (ASKED, RAN) == ([], ["b"])


async def test_a_validator_behind_a_pause_at_the_end_of_a_turn_sees_the_answer() -> None:
    @on_turn_end
    def review(context: TurnEndContext) -> Pause:
        return Pause()

    @on_turn_end
    def validate(context: TurnEndContext) -> ContinueWithMessages | None:
        return None if context.text == "right" else ContinueWithMessages.user("Try again.")

    worker = guarded("wrong", "right", hooks=(review, validate))
    await worker.run("go")
    again = await pause_of(worker.resume())
    assert again.text == "right"
    assert isinstance(await worker.resume(), Finished)


async def test_messages_that_are_added_at_the_end_of_a_turn_make_a_turn_that_all_hooks_see() -> None:
    worker, paused = await paused_by("turn end", "in process")
    await pause_of(worker.resume(paused, add=[Message.user("And?")]))
    assert ASKED == ["first", "ask"]


# --- other hooks than those that were there


@pytest.mark.parametrize(
    ("names", "expected"), [(["first", "last"], ["first", "last"]), (["last", "first", "ask"], ["last"])]
)
async def test_where_the_hook_that_paused_is_gone_or_at_another_place_no_hook_is_skipped(
    names: list[str], expected: list[str]
) -> None:
    _, paused = await paused_by("hook", "in process")
    hooks = [asked(name, Pause() if name == "ask" else None) for name in names]
    elsewhere = Worker(ScriptedModel(["Done."]), tools=[tool_of("in process", "hook")], hooks=hooks)
    assert isinstance(await elsewhere.resume(paused), Finished)
    assert expected == ASKED


@pytest.mark.parametrize("pause", ["hook", "requires_approval", "turn end"])
async def test_a_hook_that_was_added_during_the_pause_runs(pause: str) -> None:
    worker, paused = await paused_by(pause, "in process")
    point = "on_turn_end" if pause == "turn end" else "before_tool_call"
    worker.hooks.add(asked("new", point=point).replace(priority=10))
    assert isinstance(await worker.resume(paused), Finished)
    assert [name for name in ASKED if name != "seen"] == ["new", *EXPECTED[pause, "plain resume"]]


async def test_a_hook_that_was_added_runs_for_calls_that_were_approved() -> None:
    calls = call("shell", command="a") + call("shell", command="b")

    @before_tool_call(when=lambda context: context.content == '{"command":"b"}', name="ask")
    def ask_about_b(context: ToolCallContext) -> Pause:
        return Pause("b?")

    worker = guarded(calls, "Done.", hooks=(asked("old"), ask_about_b))
    await worker.run("go")
    ASKED.clear()
    worker.hooks.add(asked("new"))
    await worker.resume()
    assert (ASKED, RAN) == (["new", "new"], ["a", "b"])


PERMIT = asked("permit")
ASKS = asked("permit", Pause("?"))
CHAIN = chain(asked("a"), asked("b", Pause("?")), asked("c"), name="chain")


@pytest.mark.parametrize(
    ("hooks", "edit", "expected"),
    [
        # Hooks with one name are distinguished by their order,
        ((PERMIT, ASKS, PERMIT), False, ["permit"]),
        ((PERMIT, ASKS, PERMIT), True, ["permit"] * 2),
        # in which those whose matcher does not fit count, too.
        ((PERMIT.replace(matcher="other", unmatched="warn"), ASKS, PERMIT), False, ["permit"]),
        # Those after one in a chain run.
        ((asked("before"), CHAIN, asked("d")), False, ["c", "d"]),
        ((asked("before"), CHAIN, asked("d")), True, ["before", "a", "c", "d"]),
    ],
)
async def test_the_hooks_behind_the_one_that_paused_run(
    hooks: tuple[HookLike, ...], edit: bool, expected: list[str]
) -> None:
    worker = guarded(call("shell", command="a"), "Done.", hooks=hooks)
    paused = await pause_of(worker.run("go"))
    assert paused.hook == ("chain/b" if CHAIN in hooks else "permit")
    ASKED.clear()
    decision = Approve(input={"command": "b"}) if edit else Approve()
    assert isinstance(await worker.resume(decisions={"call_1_1": decision}), Finished)
    assert expected == ASKED


async def test_a_hook_that_was_registered_twice_pauses_twice() -> None:
    once = asked("ask", Pause("?"))
    worker = guarded(call("shell", command="a"), "Done.", hooks=(once, once))
    assert isinstance(await worker.run("go"), Paused)
    assert isinstance(await worker.resume(), Paused)
    assert isinstance(await worker.resume(), Finished)
    assert RAN == ["a"]


async def test_two_hooks_that_pause_do_so_one_after_the_other() -> None:
    hooks = (asked("a", Pause("a?")), asked("b", Pause("b?")), asked("c"))
    worker = guarded(call("shell", command="a"), "Done.", hooks=hooks)
    for name in ("a", "b"):
        paused = await pause_of(worker.run("go") if name == "a" else worker.resume())
        assert paused.hook == name
    assert isinstance(await worker.resume(), Finished)
    assert ASKED == ["a", "b", "c"]


# --- approval by policy


async def test_what_hooks_make_of_approved_arguments_has_to_be_approved_too() -> None:
    @before_tool_call
    def rewrite(context: ToolCallContext) -> None:
        context.input["task"] = f"{context.input['task']}!"

    note = tool_of("in process", "requires_approval")
    worker = Worker(ScriptedModel([call("note", task="a"), "Done."]), tools=[note], hooks=[rewrite])
    paused = await pause_of(worker.run("go"))
    assert paused.pending[0].input == {"task": "a!"}
    edit = Approve(input={"task": "b"})
    again = await pause_of(worker.resume(decisions={paused.pending[0].id: edit}))
    assert (again.hook, again.pending[0].input) == ("requires_approval", {"task": "b!"})
    assert isinstance(await worker.resume(), Finished)
    assert RAN == ["b!"]


async def test_a_call_that_was_approved_at_a_hook_needs_no_approval_by_the_policy() -> None:
    note = tool_of("in process", "requires_approval")
    worker = Worker(ScriptedModel([call("note", task="a"), "Done."]), tools=[note], hooks=hooks_of("hook"))
    paused = await pause_of(worker.run("go"))
    assert paused.hook == "ask"
    assert isinstance(await worker.resume(), Finished)


# --- answers


async def test_an_answer_is_masked_like_a_result() -> None:
    @after_tool_call
    def mask(context: ToolResultContext) -> None:
        context.set_content(context.result.text.replace("hunter2", "***"))

    worker = guarded(call("shell", command="a"), "Done.", hooks=(ask, mask))
    await worker.run("go")
    run = worker.resume(decisions={"call_1_1": Answer("it is hunter2")})
    result = await run
    assert result.conversation.messages[2].tool_results[0].text == "it is ***"
    records: list[Record] = [record async for record in run]
    assert "hunter2" not in str(records)
    assert lint(records) == []


async def test_an_answer_is_kept_over_another_pause() -> None:
    calls = call("shell", command="a") + call("shell", command="b")
    worker = guarded(calls, "Done.", hooks=(ask, asked("seen", point="after_tool_call")))
    await worker.run("go")
    paused = await pause_of(worker.resume(decisions={"call_1_1": Answer("known")}))
    assert [result.text for result in paused.pause.refused.values()] == ["known"]
    result = await worker.resume()
    assert [r.text for r in result.conversation.messages[2].tool_results] == ["known", "ran"]
    assert ASKED == ["seen", "seen"]


# --- other ways past a hook


async def test_a_tool_that_comes_after_the_hooks_have_run_is_not_run() -> None:
    """No hook and nobody has been asked about a call of a tool that was not there."""

    @tool(requires_approval=True)
    async def danger() -> None:
        """Do harm."""
        RAN.append("danger")

    @tool(barrier=True)
    async def unlock() -> str:
        """Make another tool known."""
        worker.tools.add(danger)
        return "unlocked"

    model = ScriptedModel([call("unlock") + call("danger"), "Done."])
    worker = Worker(model, tools=[unlock], hooks=[asked("guard")])
    run = worker.run("go")
    result = await run
    texts = [r.text for r in result.conversation.messages[2].tool_results]
    assert texts[0] == "unlocked"
    assert "There is no tool called 'danger'" in texts[1]
    assert RAN == []
    assert lint([record async for record in run]) == []


async def test_results_are_sent_to_the_model_after_a_pause_between_turns_in_which_a_hook_spoke() -> None:
    @after_tool_call
    def comment(context: ToolResultContext) -> Continue:
        context.add_message("Mind the gap.", "user")
        run.pause()
        return Continue()

    worker = guarded(call("shell", command="a"), "Done.", hooks=(comment,))
    run = worker.run("go")
    assert isinstance(await run, Paused)
    assert (await worker.resume()).text == "Done."


# --- what the records say


async def test_the_pause_records_which_hooks_were_reached() -> None:
    worker = Worker(
        ScriptedModel([call("note", task="a"), "Done."]), tools=[tool_of("in process", "hook")], hooks=hooks_of("hook")
    )
    run = worker.run("go")
    await run
    (pause,) = [r.event.pause async for r in run if isinstance(r.event, RunPause)]
    assert (pause.hook, pause.required) == ("ask", (0,))
    assert pause.calls == (PausedCall(0, pause.pending[0], (("first", 0), ("ask", 0))),)


async def test_nothing_starts_while_a_run_is_paused() -> None:
    worker, paused = await paused_by("hook", "in process")
    run = worker.resume(paused, decisions={paused.pending[0].id: Deny("no")})
    await run
    kinds = [type(r.event) async for r in run if isinstance(r.event, ToolStart | ToolStop)]
    assert kinds == [ToolStop]


LS = call("shell", command="ls")


async def resumed_to_the_end(worker: Worker, result: RunResult[None], place: str) -> None:
    while isinstance(result, Paused):
        if place == "saved and loaded":
            result = load_paused(save_paused(result))
            worker = Worker(worker.model, tools=worker.tools, hooks=worker.hooks)
        result = await worker.resume(result)


@pytest.mark.parametrize("place", ["in process", "saved and loaded"])
@pytest.mark.parametrize("speaks", ["a hook that sends the answer back", "a message into the run"])
async def test_a_matcher_at_the_end_of_a_turn_knows_the_tools_called_before_a_pause(speaks: str, place: str) -> None:
    """Also where the user, or a hook in the user's name, has spoken between the call and the pause."""

    @on_turn_end
    def more(context: TurnEndContext) -> ContinueWithMessages | None:
        back = speaks.startswith("a hook") and context.turn == 2
        return ContinueWithMessages.user("More.") if back else None

    @on_turn_end(matcher="shell")
    def validate(context: TurnEndContext) -> None:
        ASKED.append(context.text)

    stop = asked("stop", Pause("A person reads it."), "on_turn_end")
    worker = guarded(LS, "One.", "Two.", hooks=(more, stop, validate))
    run = worker.run("Clean up.")
    if speaks.startswith("a message"):
        run.subscribe(lambda r: run.send("More.") and None if type(r.event) is ToolStop else None)
    await resumed_to_the_end(worker, await run, place)
    assert ASKED.count("Two.") + ASKED.count("One.") == 1


async def test_a_matcher_at_the_end_of_a_turn_knows_tools_whose_calls_a_hook_has_taken_out() -> None:
    @on_turn_end
    def shorten(context: TurnEndContext) -> None:
        context.rewrite_conversation(lambda m: None if m.tool_calls or m.tool_results else m)

    @on_turn_end(matcher="shell")
    def validate(context: TurnEndContext) -> None:
        ASKED.append(context.text)

    await guarded(LS, "Done.", hooks=(shorten, validate)).run("Clean up.")
    assert ASKED == ["Done."]


@pytest.mark.parametrize("left", ["nonsense", "another name"])
@pytest.mark.parametrize("verdict", [None, Skip("no"), Pause("?")])
async def test_a_call_that_a_hook_has_broken_is_seen_before_the_next_hook(
    left: str, verdict: Skip | Pause | None
) -> None:
    """A matcher would pass over a guard otherwise, and a later hook could make the call look unharmed."""

    @before_tool_call
    def spoil(context: ToolCallContext) -> Skip | Pause | None:
        other = replace(context.call, name="harmless")
        context.call = other if left == "another name" else left  # pyright: ignore[reportAttributeAccessIssue]
        return verdict

    @before_tool_call
    def undo(context: ToolCallContext) -> None:
        context.call = ToolCall("call_1_1", "shell", {"command": "rm -rf /"})

    guarding = guard.replace(matcher="shell")
    worker = guarded(LS, "Done.", hooks=(spoil, guarding, undo))
    with pytest.raises(HookError, match="after hook 'spoil' the call is"):
        await worker.run("Clean up.")
    assert RAN == []


async def test_hooks_do_not_run_again_for_a_call_whose_tool_had_a_question() -> None:
    """They have agreed to the call before its tool began it."""
    ran: list[str] = []

    @tool
    async def plant(context: ToolContext) -> str:
        if context.begun is None or context.begun.reply is None:
            context.ask(Question("garden", "Which tree?"))
        return f"planted, {context.begun.reply.action}"

    def agree(context: ToolCallContext) -> None:
        ran.append(context.call.name)

    worker = Worker(ScriptedModel([call("plant"), "Done."]), tools=[plant], hooks=[before_tool_call(agree)])
    paused = await pause_of(worker.run("go"))
    assert (paused.pause.hook, ran) == ("question", ["plant"])
    result = await finish_of(worker.resume(decisions={paused.pending[0].id: Approve()}))
    assert ran == ["plant"]
    assert "planted, accept" in str(result.conversation)
