from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

import pytest

from rxworker import after_tool_call, before_tool_call, hook, on_abort, on_message_send, on_turn_end
from rxworker.errors import ConfigurationError
from rxworker.events import ConversationReplace, CustomEvent, HookMessage, HookVerdict, LoopHold, MessageAdd
from rxworker.hooks import (
    Continue,
    Finish,
    Hook,
    HookContext,
    HookPoint,
    Hooks,
    MessageSendContext,
    Pause,
    Skip,
    ToolCallContext,
    TurnEndContext,
    Verdict,
    chain,
)
from rxworker.hooks.base import HookSettings
from rxworker.hooks.decorate import HookLike
from rxworker.messages import Conversation, Message, ToolCall, ToolMeta, ToolResult
from rxworker.tools import ClientTool
from tests.hooks.asking import verdict_of

ROWS: list[HookVerdict | HookMessage | MessageAdd | ConversationReplace | LoopHold | CustomEvent] = []


def call_context(name: str = "delete") -> ToolCallContext:
    return ToolCallContext(
        call=ToolCall("c1", name, {"path": "a"}),
        tool=ClientTool(ToolMeta("delete", "Deletes.", {})),
        conversation=Conversation(),
        emit=ROWS.append,
    )


def send_context() -> MessageSendContext:
    conversation = Conversation((Message.user("hi"),), "Be brief.")
    return MessageSendContext(conversation=conversation, emit=ROWS.append)


async def ask(hooks: Hooks, point: HookPoint, context: HookContext) -> tuple[Verdict, str]:
    ROWS.clear()
    return await verdict_of(hooks, point, context, ROWS.append)


async def ask_call(*hooks: HookLike) -> Verdict:
    return (await ask(Hooks(hooks), HookPoint.BEFORE_TOOL_CALL, call_context()))[0]


async def test_skip_ends_the_chain_and_is_reported_with_the_hooks_name() -> None:
    asked: list[str] = []

    @before_tool_call
    def refuse(context: ToolCallContext) -> Skip:
        return Skip("not this one")

    @before_tool_call
    async def later(context: ToolCallContext) -> None:
        asked.append("later")

    assert await ask_call(refuse, later) == Skip("not this one")
    assert asked == []
    assert [HookVerdict("refuse", "before_tool_call", "Skip", "not this one", "c1")] == ROWS


async def test_a_later_hook_sees_what_an_earlier_one_changed() -> None:
    @before_tool_call
    def change(context: ToolCallContext) -> None:
        context.input["path"] = "b"

    @before_tool_call
    def look(context: ToolCallContext) -> Skip | None:
        return Skip("changed") if context.input["path"] == "b" else None

    assert await ask_call(change, look) == Skip("changed")
    assert await ask_call(look, change) == Continue()


async def test_one_object_serves_several_points_and_does_nothing_at_the_others() -> None:
    class Audit:
        name = "audit"

        def before_tool_call(self, context: ToolCallContext) -> Skip:
            return Skip()

        async def on_turn_end(self, context: TurnEndContext) -> Finish:
            return Finish()

    hooks = Hooks([Audit()])
    assert hooks.list() == [("audit", "before_tool_call"), ("audit", "on_turn_end")]
    assert (await ask(hooks, HookPoint.ON_MESSAGE_SEND, send_context()))[0] == Continue()
    assert await ask_call(Audit()) == Skip()


async def test_a_verdict_at_on_abort_is_reported_and_ends_nothing() -> None:
    def wrong(context: HookContext) -> Verdict:
        return Continue()

    hooks = Hooks([Hook(wrong, HookPoint.ON_ABORT)])
    assert (await ask(hooks, HookPoint.ON_ABORT, send_context()))[0] == Continue()
    assert [row.verdict for row in ROWS if isinstance(row, HookVerdict)] == ["Failed"]


def test_hooks_can_be_listed_removed_and_cleared() -> None:
    @on_abort
    def a(context: HookContext) -> None: ...

    @on_abort(name="second")
    def b(context: HookContext) -> None: ...

    @before_tool_call
    def c(context: ToolCallContext) -> None: ...

    hooks = Hooks([a, b, c])
    assert hooks.list() == [("a", "on_abort"), ("second", "on_abort"), ("c", "before_tool_call")]
    assert hooks.remove("second")
    assert not hooks.remove("second")
    hooks.clear("on_abort")
    assert hooks.list() == [("c", "before_tool_call")]
    assert hooks.remove_at("PreToolUse") == 1
    assert (hooks.remove_at("PreToolUse"), hooks.list()) == (0, [])
    hooks.add(a, b, c)
    assert len(hooks) == 3
    hooks.clear()
    assert hooks.list() == []


def test_of_several_hooks_all_are_registered_or_none() -> None:
    hooks = Hooks()
    with pytest.raises(ConfigurationError):
        hooks.add(before_tool_call(lambda _: None), cast("Any", object()))
    assert len(hooks) == 0


@pytest.mark.parametrize("use", [Hooks().remove_at, Hooks().clear, Hooks().at, Hooks().operator, hook])
def test_a_point_that_there_is_not_is_refused_with_those_there_are(use: Callable[[str], object]) -> None:
    with pytest.raises(ConfigurationError, match=r"no point 'PreTool'; there are: on_message_send"):
        use("PreTool")


async def test_two_hooks_of_one_name_are_both_called_and_both_removed() -> None:
    asked: list[int] = []
    same = [before_tool_call(name="same")(lambda _, n=n: asked.append(n)) for n in (1, 2)]
    hooks = Hooks(same)
    await ask(hooks, HookPoint.BEFORE_TOOL_CALL, call_context())
    assert asked == [1, 2]
    assert hooks.remove("same")
    assert len(hooks) == 0


async def test_a_chain_that_is_being_called_goes_on_as_it_was() -> None:
    asked: list[str] = []

    @before_tool_call
    def change(context: ToolCallContext) -> None:
        hooks.remove("last")
        hooks.add(new)

    @before_tool_call
    def last(context: ToolCallContext) -> None:
        asked.append("last")

    @before_tool_call
    def new(context: ToolCallContext) -> None:
        asked.append("new")

    hooks = Hooks([change, last])
    await ask(hooks, HookPoint.BEFORE_TOOL_CALL, call_context())
    assert asked == ["last"]
    hooks.remove("change")
    await ask(hooks, HookPoint.BEFORE_TOOL_CALL, call_context())
    assert asked == ["last", "new"]


def test_an_object_states_how_it_is_called() -> None:
    class Gate:
        hook_settings: ClassVar[HookSettings] = {
            "name": "gate",
            "matcher": "delete",
            "priority": 5,
            "on_failure": "skip",
        }

        def on_message_send(self, context: HookContext) -> None: ...
        def before_tool_call(self, context: HookContext) -> None: ...

    first, second = Hooks([Gate()])
    assert (first.name, first.priority, first.on_failure, first.matcher) == ("gate", 5, "abort", None)
    assert (second.on_failure, second.matches("create")) == ("skip", False)


def test_settings_of_an_object_that_there_are_not_are_refused() -> None:
    class Gate:
        hook_settings = {"prority": 5}  # noqa: RUF012 - as somebody may write it

        def on_abort(self, context: HookContext) -> None: ...

    with pytest.raises(ConfigurationError, match=r"prority.*give a dict with: name, matcher"):
        Hooks([Gate()])


async def test_a_matcher_at_on_turn_end_matches_if_the_run_has_called_such_a_tool() -> None:
    @on_turn_end(matcher="Edit|Create")
    def check(context: TurnEndContext) -> Pause:
        return Pause()

    def ended(*messages: Message, since: int | None = None) -> TurnEndContext:
        said = Conversation(messages)
        return TurnEndContext(conversation=said, emit=ROWS.append, since=since)

    edit = Message.assistant(ToolCall("c1", "Edit", {}))
    before = (Message.user("1"), edit, Message.user(ToolResult("c1")), Message.assistant("ok"))
    now = (Message.user("2"), Message.assistant("fine"))
    sent_back = (Message.user("lint!"), Message.assistant("fine"))
    hooks = Hooks([check])
    for context, verdict in [
        (ended(*before), Pause()),
        (ended(*before, *now), Finish()),
        (ended(*before, *now, since=5), Finish()),
        (ended(*before, *sent_back, since=1), Pause()),
        (ended(*before, since=2), Pause()),
        (ended(), Finish()),
    ]:
        assert (await ask(hooks, HookPoint.ON_TURN_END, context))[0] == verdict


def test_a_matcher_where_there_is_nothing_to_match_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="there is no tool to match; use when="):
        on_message_send(matcher="Edit")(lambda _: None)


async def test_a_condition_decides_whether_a_hook_runs() -> None:
    async def is_odd(context: ToolCallContext) -> bool:
        return context.call.name == "odd"

    def is_long(context: ToolCallContext) -> bool:
        return len(context.call.name) > 10

    @before_tool_call(when=is_odd)
    def first(context: ToolCallContext) -> Skip:
        return Skip("odd")

    @before_tool_call(when=is_long)
    def second(context: ToolCallContext) -> Skip:
        return Skip("long")

    hooks = Hooks([first, second])
    for name, verdict in [("odd", Skip("odd")), ("much_too_long", Skip("long")), ("x", Continue())]:
        asked = await ask(hooks, HookPoint.BEFORE_TOOL_CALL, call_context(name))
        assert asked[0] == verdict


async def test_a_final_finish_ends_the_chain_and_is_reported() -> None:
    @on_turn_end
    def done(context: TurnEndContext) -> Finish:
        return Finish(final=True)

    @on_turn_end
    def never(context: TurnEndContext) -> Pause:
        return Pause()

    context = TurnEndContext(conversation=Conversation(), emit=ROWS.append)
    assert await ask(Hooks([done, never]), HookPoint.ON_TURN_END, context) == (Finish(final=True), "done")
    assert [HookVerdict("done", "on_turn_end", "Finish")] == ROWS


def test_a_hook_with_other_settings_is_another_hook() -> None:
    @before_tool_call(matcher="Edit", priority=3)
    def permit(context: ToolCallContext) -> None: ...

    other = permit.replace(name="other", on_failure="skip")
    assert (other.name, other.priority, other.on_failure) == ("other", 3, "skip")
    assert not other.matches("Create")
    assert (permit.name, permit.on_failure) == ("permit", "abort")


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"on_failure": "ignore"}, "on_failure='ignore' of hook 'print'"),
        ({"timeout": 0}, "hook 'print': timeout=0: give a number above 0"),
        ({"timeout": "1"}, "timeout='1'"),
        ({"timeout": float("nan")}, "timeout=nan"),
        ({"priority": "high"}, "priority='high'"),
        ({"when": True}, "a condition is a function"),
        ({"before": [print]}, "give names of hooks"),
        ({"after": "print"}, "hook 'print' cannot run after itself"),
        ({"matcher": 5}, "not a regular expression: 5"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        before_tool_call(**settings)(print)


def test_a_request_or_an_end_cannot_be_skipped() -> None:
    for decorate in (on_message_send, on_turn_end, on_abort):
        with pytest.raises(ConfigurationError, match="on_failure='skip' of hook 'print': at on_"):
            decorate(on_failure="skip")(print)


@pytest.mark.parametrize(
    ("nonsense", "hint"),
    [
        (print, "decorate a function"),
        (object(), "give an object with one of the methods"),
        (ClientTool, "is a class: register an object of it"),
    ],
)
def test_what_is_not_a_hook_is_refused_with_a_hint(nonsense: Any, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        Hooks([nonsense])


def test_a_matcher_that_is_not_a_regular_expression_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"matcher of hook 'print' is not a regular"):
        after_tool_call(matcher="(")(print)


@pytest.mark.parametrize("name", ["client_tool", "pause", "question", "recovery", "requires_approval"])
def test_a_hook_cannot_have_the_name_of_a_pause_that_no_hook_requests(name: str) -> None:
    def permit(context: HookContext) -> None: ...

    with pytest.raises(
        ConfigurationError, match=f"'{name}' is the name of a pause .* give the hook another, name='...'"
    ):
        Hook(permit, "before_tool_call", name=name)
    with pytest.raises(ConfigurationError, match="give the hook another"):
        chain(Hook(permit, "on_turn_end"), name=name)
    permit.__name__ = name
    with pytest.raises(ConfigurationError, match="give the hook another"):
        before_tool_call(permit)
    assert before_tool_call(permit, name="permit").name == "permit"
