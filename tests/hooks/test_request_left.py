"""What hooks leave of a request is checked after each of them, so that the error names the one that broke it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rxworker import Worker, on_message_send, tool
from rxworker.errors import HookError
from rxworker.hooks import Hook, MessageSendContext, chain
from rxworker.messages import Conversation, Json, Message, Text, ToolCall, ToolResult, validate
from rxworker.testing import ScriptedModel, call

Change = Callable[[MessageSendContext], Any]


def adds(*content: Any, role: Any = "user") -> Change:
    return lambda context: context.messages.append(Message(role, content))


def replaces(name: str, value: Any) -> Change:
    return lambda context: setattr(context, name, value)


def in_turn_2(change: Change) -> Change:
    return lambda context: change(context) if context.turn == 2 else None


def spoil_arguments(context: MessageSendContext) -> None:
    for called in context.messages[1].tool_calls:
        called.input.update(a=float("nan"))  # type: ignore[union-attr]


ALONE, ODD_CALL, TEXT_ALONE = Message.assistant("Hi."), ToolCall("x", "look", {}), Message("user", "hi")  # pyright: ignore[reportArgumentType]
BROKEN: dict[str, tuple[Change, str]] = {
    "no message": (lambda c: c.messages.clear(), "no message is left: return Cancel"),
    "a lone answer": (replaces("messages", [ALONE]), "an assistant message comes before the first user message"),
    "an orphan result": (adds(ToolResult("x", "21")), "the result 'x' answers no call"),
    "a call without result": (adds(ODD_CALL, role="assistant"), "the call 'x' of look has no result"),
    "a call of the user": (adds(ODD_CALL), "a tool call in a message of the role user"),
    "the results left out": (in_turn_2(lambda c: c.messages.pop()), "the call 'call_1_1' of look has no result"),
    "the call left out": (in_turn_2(lambda c: c.messages.pop(1)), "the result 'call_1_1' answers no call"),
    "an empty message": (adds(Text("")), "it is empty"),
    "messages in reverse": (in_turn_2(lambda c: c.messages.reverse()), "a provider refuses the messages"),
    "a text": (replaces("messages", ["hi"]), "'hi', which is not a Message"),
    "another role": (adds(Text("hi"), role="bot"), "a message of the role 'bot'"),
    "a text as content": (replaces("messages", [TEXT_ALONE]), "a message with the content 'hi'"),
    "texts as content": (adds("hi"), "which is not a content block"),
    "no list": (replaces("messages", None), "is not a list"),
    "a system text that is none": (replaces("system", ["Be brief."]), "the system text is ['Be brief.']"),
    "half a character in the system text": (
        replaces("system", "half \ud83d"),
        "the system text is a text with half of a surrogate pair",
    ),
    "a text block without a text": (adds(Text(5)), "the messages hold a message with 5, which is not a string"),  # pyright: ignore[reportArgumentType]
    "a text with half a character": (
        lambda c: c.set_content("half \ud83d"),
        "the messages hold a message with a text with half of a surrogate pair",
    ),
    "arguments without a JSON form": (
        in_turn_2(spoil_arguments),
        "a call whose input at $.a is nan, which has no JSON form",
    ),
}
SOUND: dict[str, Change] = {
    "the beginning of the answer": adds(Text("{"), role="assistant"),
    "a system message in the middle": adds(Text("Be brief."), role="system"),
    "two messages of one role": adds(Text("Please.")),
    "without the first turn": lambda c: c.messages.__setitem__(slice(None), [Message.user("Go.")]),
    "a tuple": lambda c: setattr(c, "messages", tuple(c.messages)),
}


@tool
async def look(a: float = 1.0) -> str:
    """Look."""
    return str(a)


def worker_of(*hooks: Hook[Any]) -> tuple[Worker, ScriptedModel]:
    model = ScriptedModel([call("look", a=1.0), "Done."])
    return Worker(model, tools=[look], hooks=hooks), model


def fine(context: MessageSendContext) -> None:
    del context


@pytest.mark.parametrize("what", BROKEN)
@pytest.mark.parametrize("on_failure", ["abort", "continue"])
async def test_a_broken_request_is_not_sent_and_its_hook_is_named(what: str, on_failure: Any) -> None:
    change, why = BROKEN[what]

    def spoil(context: MessageSendContext) -> None:
        change(context)

    hooks = [
        on_message_send(fine, name="first"),
        on_message_send(spoil, name="spoil", on_failure=on_failure),
        on_message_send(fine, name="last"),
    ]
    for made, name in ((hooks, "spoil"), ([chain(*hooks, name="all")], "all/spoil")):
        worker, model = worker_of(*made)
        run = worker.run("Go.")
        if on_failure == "continue":  # the request is the one before the hook
            await run
        else:
            with pytest.raises(HookError) as failed:
                await run
            assert failed.value.hook == name
            assert (failed.value.point, f"after hook {name!r} ") == (
                "on_message_send",
                str(failed.value)[: len(f"after hook {name!r} ")],
            )
            assert why in str(failed.value)
        assert all(validate(request.conversation) == [] for request in model.requests)


@pytest.mark.parametrize("what", SOUND)
async def test_a_sound_request_is_sent_as_the_hooks_left_it(what: str) -> None:
    def change(context: MessageSendContext) -> None:
        SOUND[what](context)

    worker, model = worker_of(on_message_send(change))
    await worker.run("Go.")
    assert len(model.requests) == 2


async def test_a_conversation_that_was_broken_before_may_be_repaired_in_part() -> None:
    """Each hook is responsible for what it has changed, not for what it was given."""
    said = (Message.user("Hi"), Message.user(""), Message.user(""))
    context = MessageSendContext(conversation=Conversation(said), emit=print)
    context.messages.pop()
    context.check()
    context.messages.pop()
    context.check()
    context.messages.append(Message.user(""))
    with pytest.raises(HookError, match="it is empty"):
        context.check()


@pytest.mark.parametrize("value", [{"b": 1}, [{"b": 1}], ({"b": 1},), [({"b": 1},)]], ids=repr)
def test_what_a_hook_changes_in_place_within_arguments_is_noted_and_stays_in_the_request(value: Json) -> None:
    """Arguments with a tuple come from a program; JSON has none."""
    made = ToolCall("x", "look", {"a": value})
    said = (Message.user("Hi"), Message("assistant", (made,)), Message("user", (ToolResult("x", "1.0"),)))
    context, before = MessageSendContext(conversation=Conversation(said), emit=print), repr(made)
    inner: Any = context.messages[1].tool_calls[0].input
    inner = inner["a"]
    while not isinstance(inner, dict):
        inner = inner[0]
    inner["b"] = 1.0
    context.note("turn")
    assert repr(made) == before
    assert [hook for hook, _, _ in context.edits] == ["turn"]
