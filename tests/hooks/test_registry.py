from __future__ import annotations

import pytest
from reactivex import operators as ops

from rxworker.errors import ConfigurationError, HookError
from rxworker.events import HookMessage, HookVerdict, MessageAdd
from rxworker.hooks import (
    Abort,
    BeforeToolCallVerdict,
    Cancel,
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
    after_tool_call,
    before_tool_call,
    from_operator,
    on_abort,
    on_message_send,
    on_turn_end,
)
from rxworker.messages import Conversation, Message, ToolCall, ToolMeta

ROWS: list[HookVerdict | HookMessage | MessageAdd] = []


class FakeTool:
    meta = ToolMeta("delete", "Deletes.", {})


def call_context(name: str = "delete") -> ToolCallContext:
    return ToolCallContext(
        call=ToolCall("c1", name, {"path": "a"}),
        tool=FakeTool(),
        conversation=Conversation(),
        emit=ROWS.append,
    )


def send_context() -> MessageSendContext:
    conversation = Conversation((Message.user("hi"),), "Be brief.")
    return MessageSendContext(conversation=conversation, emit=ROWS.append)


async def ask(hooks: Hooks, point: HookPoint, context: HookContext) -> tuple[Verdict, str]:
    ROWS.clear()
    return await hooks.ask(point, context, ROWS.append)


async def ask_call(*hooks: object) -> Verdict:
    return (await ask(Hooks(hooks), HookPoint.BEFORE_TOOL_CALL, call_context()))[0]


async def test_hooks_are_asked_in_the_order_of_registration() -> None:
    order: list[str] = []

    def note(name: str) -> Hook[ToolCallContext]:
        return before_tool_call(name=name)(lambda _: order.append(name))

    assert await ask_call(note("a"), note("b"), note("c")) == Continue()
    assert order == ["a", "b", "c"]


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


async def test_a_coroutine_function_is_waited_for() -> None:
    @before_tool_call
    async def pause(context: ToolCallContext) -> BeforeToolCallVerdict:
        return Pause("ask someone")

    assert await ask_call(pause) == Pause("ask someone")


async def test_a_matcher_fits_the_whole_name_of_the_tool() -> None:
    @before_tool_call(matcher="del")
    def part(context: ToolCallContext) -> Skip:
        return Skip()

    @before_tool_call(matcher="delete|create")
    def whole(context: ToolCallContext) -> Abort:
        return Abort("no")

    assert await ask_call(part) == Continue()
    assert await ask_call(whole) == Abort("no")


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


@pytest.mark.parametrize(
    ("point", "answer"),
    [
        (HookPoint.ON_MESSAGE_SEND, Skip()),
        (HookPoint.BEFORE_TOOL_CALL, Cancel("no")),
        (HookPoint.AFTER_TOOL_CALL, Pause()),
        (HookPoint.ON_TURN_END, Abort("no")),
        (HookPoint.ON_ABORT, Continue()),
        (HookPoint.BEFORE_TOOL_CALL, True),
        (HookPoint.BEFORE_TOOL_CALL, "Skip"),
        (HookPoint.BEFORE_TOOL_CALL, Skip),
    ],
)
async def test_a_verdict_that_a_point_does_not_have_is_an_error_that_names_those_it_has(
    point: HookPoint, answer: object
) -> None:
    def wrong(context: HookContext) -> Verdict:
        return answer  # type: ignore[return-value]

    with pytest.raises(HookError, match="where it may answer") as caught:
        await ask(Hooks([Hook(wrong, point)]), point, send_context())
    assert (caught.value.hook, caught.value.point) == ("wrong", point.value)


async def test_a_hook_that_raises_is_an_error_with_its_name_and_its_cause() -> None:
    @on_turn_end
    def broken(context: TurnEndContext) -> None:
        raise KeyError("x")

    context = TurnEndContext(conversation=Conversation(), emit=ROWS.append)
    with pytest.raises(HookError, match=r"hook 'broken' failed at on_turn_end: KeyError") as caught:
        await ask(Hooks([broken]), HookPoint.ON_TURN_END, context)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_an_operator_that_passes_the_context_on_says_continue() -> None:
    assert await ask_call(before_tool_call(from_operator(ops.do_action(print)))) == Continue()


async def test_an_operator_that_drops_the_context_says_skip() -> None:
    def harmless(context: ToolCallContext) -> bool:
        return context.call.name != "delete"

    assert await ask_call(before_tool_call(from_operator(ops.filter(harmless)))) == Skip()


async def test_an_operator_that_fails_says_abort() -> None:
    def explode(context: ToolCallContext) -> ToolCallContext:
        raise PermissionError("no deleting")

    assert await ask_call(before_tool_call(from_operator(ops.map(explode)))) == Abort("no deleting")


async def test_an_operator_at_on_message_send_says_cancel() -> None:
    def never(context: MessageSendContext) -> bool:
        return False

    hooks = Hooks([on_message_send(from_operator(ops.filter(never)))])
    verdict, _ = await ask(hooks, HookPoint.ON_MESSAGE_SEND, send_context())
    assert verdict == Cancel("the request was held back")


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
    hooks.clear()
    assert hooks.list() == []


@pytest.mark.parametrize(
    ("nonsense", "hint"),
    [
        (print, "decorate a function"),
        (object(), "give an object with one of the methods"),
        (FakeTool, "is a class: register an object of it"),
    ],
)
def test_what_is_no_hook_is_refused_with_a_hint(nonsense: object, hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        Hooks([nonsense])


def test_a_matcher_that_is_no_regular_expression_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"matcher of hook 'print' is no regular"):
        after_tool_call(matcher="(")(print)


def test_what_a_hook_adds_to_the_conversation_is_also_sent() -> None:
    ROWS.clear()
    context = send_context()
    context.hook = "inject"
    context.messages.insert(0, Message.user("only in this request"))
    context.add_message(Message.user("stays"))
    assert [m.text for m in context.messages] == ["only in this request", "hi", "stays"]
    assert [m.text for m in context.conversation.messages] == ["hi", "stays"]
    assert [MessageAdd((Message.user("stays"),), "inject")] == ROWS


def test_a_hook_tells_the_watchers_something_under_its_name() -> None:
    ROWS.clear()
    context = send_context()
    context.hook = "teller"
    context.send_message("m")
    context.send_system("s")
    context.send_debug("d", {"n": 1})
    assert [
        HookMessage("teller", "message", "m"),
        HookMessage("teller", "system", "s"),
        HookMessage("teller", "debug", "d", {"n": 1}),
    ] == ROWS
