"""Who breaks a cache: workers with something in them that ends what can be read, and the meter that names it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
import reactivex
from msgspec.structs import replace
from reactivex import Observable

from rxworker import Worker, on_message_send, tool
from rxworker.hooks import Hook, MessageSendContext, chain
from rxworker.messages import Conversation, JsonObject, Message, Text, ToolCall, ToolResult
from rxworker.messages.usage import Usage
from rxworker.providers import Anthropic, Bedrock, Gemini, HttpRequest, OpenAIChat, OpenAIResponses, Options
from rxworker.providers.base import Provider
from rxworker.providers.cache_use import CacheChange
from rxworker.testing import Reply, call, say
from rxworker.testing.wire import wire_for
from rxworker.tools import Toolbox
from rxworker.transport import CacheMeter

CLAUDE = Anthropic("claude-sonnet-5-5", api_key="k")
CHAT, RESPONSES = OpenAIChat("gpt-5.4", api_key="k"), OpenAIResponses("gpt-5.4", api_key="k")
GEMINI = Gemini("gemini-3.8-flash", api_key="k")
BEDROCK = Bedrock("anthropic.claude-sonnet-4-6", region="us-east-1", api_key="k")
USED = Usage(5_000, 10)


class Script:
    """A service that calls ``look`` in the first rounds of a run, and answers then."""

    def __init__(self, rounds: int) -> None:
        self._replies: list[Reply] = [
            *(say("I look.") + call("look", at=f"{n}", deep="no") for n in range(rounds)),
            say("Fine."),
        ]
        self.number = 0

    def send(self, request: HttpRequest) -> Observable[bytes]:
        reply = self._replies[self.number % len(self._replies)] + Reply(usage=USED)
        self.number += 1
        wire = wire_for(request.url)
        assert wire is not None
        return reactivex.of(b"".join(wire.frames(reply, self.number, msgspec.json.decode(request.body))))


class Case:
    """A worker of a row, with what its breaker may change."""

    def __init__(self, provider: Provider, rounds: int = 2) -> None:
        @tool
        def look(at: str, deep: str) -> str:
            """Look at something."""
            for action in self.in_tool:
                action()
            return f"{at}, {deep}: it rains."

        @tool
        def listen() -> str:
            """Listen."""
            return ""

        self.in_tool: list[Callable[[], None]] = []
        self.meter = CacheMeter(provider, transport=Script(rounds))
        self.toolbox = Toolbox([look, listen])
        self.hooks: list[Hook[Any]] = [on_message_send(harmless, name="harmless")]
        self.between: list[Callable[[Worker], None]] = []
        self.changes: list[CacheChange] = []

    async def run(self) -> CacheChange | None:
        """The first change of two runs."""
        worker = Worker(
            self.meter,
            tools=self.toolbox,
            hooks=[*self.hooks, on_message_send(self._note, name="note")],
            options=Options(max_tokens=100),
            conversation=Conversation(system="Be careful, and be brief in all that you write."),
        )
        self.toolbox = worker.tools
        await worker.run("What is the weather like?")
        self._note()
        for change in self.between:
            change(worker)
        await worker.run("And tomorrow?")
        self._note()
        return self.changes[0] if self.changes else None

    def _note(self, _: object = None) -> None:
        if self.meter.use.change is not None:
            self.changes.append(self.meter.use.change)


def harmless(context: MessageSendContext) -> None:
    """Changes the request, and always in the same way, behind what a breaker may change."""
    context.system = f"{context.system} Answer in English."


def hooked(*functions: Callable[[MessageSendContext], None], chained: str = "") -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        made = [on_message_send(each, name=each.__name__) for each in functions]
        case.hooks = [case.hooks[0], *([chain(*made, name=chained)] if chained else made)]

    return plant


def in_tool(change: Callable[[Toolbox], None]) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.in_tool.append(lambda: change(case.toolbox))

    return plant


def between(change: Callable[[Worker, Case], None]) -> Callable[[Case], None]:
    def plant(case: Case) -> None:
        case.between.append(lambda worker: change(worker, case))

    return plant


TIMES = itertools.count(1_795_661_538)


def clock(context: MessageSendContext) -> None:
    context.system = f"It is {next(TIMES)} now. {context.system}"


def day(context: MessageSendContext) -> None:
    days = ("Thursday, 26 November", "Friday, 27 November")
    context.set_content(f"[{days[next(TIMES) % 2]}] {context.content}")


def ids(context: MessageSendContext) -> None:
    context.system = f"Request {'abcdefgh'[next(TIMES) % 8]}. {context.system}"


def count(context: MessageSendContext) -> None:
    context.system = f"{context.system} This is turn {context.turn} of 50."


def remind(context: MessageSendContext) -> None:
    """Stands at the end of each request, and is not there in the next one."""
    last = context.messages[-1]
    context.messages[-1] = replace(last, content=(*last.content, Text("Be careful.")))


def trim(context: MessageSendContext) -> None:
    if len(context.messages) > 4:
        del context.messages[1:3]


def shorten(context: MessageSendContext) -> None:
    """Cuts all results but the last."""
    for at, message in enumerate(context.messages[:-1]):
        if message.tool_results:
            cut = tuple(replace(each, content="...") for each in message.tool_results)
            context.messages[at] = replace(message, content=cut)


def mask(context: MessageSendContext) -> None:
    """Rewrites what is kept, from the second turn on."""

    def masked(message: Message) -> Message:
        known = [replace(b, text="***") if isinstance(b, Text) else b for b in message.content]
        return replace(message, content=tuple(known)) if message.role == "user" else message

    if context.turn == 2:
        context.rewrite_conversation(masked)


def arguments(context: MessageSendContext) -> None:
    """Changes arguments in place, of old calls alone."""
    for message in context.messages[:-2]:
        for each in message.tool_calls:
            assert not isinstance(each.input, str)
            each.input["at"] = "somewhere"


def order(context: MessageSendContext) -> None:
    """Turns the arguments of old calls round."""
    for message in context.messages[:-2]:
        for each in message.tool_calls:
            assert not isinstance(each.input, str)
            turned = [*each.input.items()][::-1]
            each.input.clear()
            each.input.update(turned)


def summarise(context: MessageSendContext) -> None:
    if context.turn > 2:
        context.messages[0] = Message.user("A summary of what was before.")


@tool
def late() -> str:
    """A tool that comes late."""
    return ""


def offer(context: MessageSendContext) -> None:
    assert context.toolbox is not None
    if context.turn == 2 and "late" not in context.toolbox:
        context.toolbox.add(late)


def withdraw(context: MessageSendContext) -> None:
    assert context.toolbox is not None
    if context.turn == 2 and "listen" in context.toolbox:
        context.toolbox.remove("listen")


def find(toolbox: Toolbox) -> None:
    if "late" not in toolbox:
        toolbox.add(late)


def turn_round(toolbox: Toolbox) -> None:
    listen = toolbox.get("listen")
    look = toolbox.remove("look")
    assert listen is not None
    toolbox.add(look)


def set_system(worker: Worker, _: Case) -> None:
    kept = worker.session.conversation
    worker.session.conversation = replace(kept, system="Be bold.")


def edit(worker: Worker, _: Case) -> None:
    kept = worker.session.conversation
    messages = (Message.user("What is the climate like?"), *kept.messages[1:])
    worker.session.conversation = kept.with_messages(messages)


def think(worker: Worker, _: Case) -> None:
    worker.options = replace(worker.options, thinking="high")


def move(_: Worker, case: Case) -> None:
    case.meter.provider = Anthropic("claude-opus-5-5", api_key="k")


# What is planted in a worker of which provider; then the part, the hook, the tool, and whether a time has changed.
Row = tuple[Provider, Callable[[Case], None], str, str, str, bool]
BREAKERS: dict[str, Row] = {
    "a time in the system text": (CLAUDE, hooked(clock), "system", "clock", "", True),
    "the same over Bedrock": (BEDROCK, hooked(clock), "system", "clock", "", True),
    "the same in a chain": (CHAT, hooked(arguments, clock, chained="all"), "system", "all/clock", "", True),
    "a day in the question": (RESPONSES, hooked(day), "message", "day", "", True),
    "an id of the request": (GEMINI, hooked(ids), "system", "ids", "", False),
    "the number of the turn": (CLAUDE, hooked(count), "system", "count", "", False),
    "the first of two": (CLAUDE, hooked(ids, count), "system", "ids", "", False),
    "the second of two": (CLAUDE, hooked(count, clock), "system", "clock", "", True),
    "a reminder that moves": (CLAUDE, hooked(remind), "message", "remind", "", False),
    "a reminder beside another hook": (CHAT, hooked(remind, shorten), "message", "remind", "", False),
    "a conversation that is trimmed": (GEMINI, hooked(trim), "message", "trim", "", False),
    "results that are shortened": (RESPONSES, hooked(shorten), "message", "shorten", "", False),
    "a mask, for good": (CLAUDE, hooked(mask), "message", "mask", "", False),
    "arguments in place": (BEDROCK, hooked(arguments), "message", "arguments", "", False),
    "arguments in place, by the second": (CLAUDE, hooked(summarise, order), "message", "summarise", "", False),
    "arguments in another order": (CLAUDE, hooked(order), "message", "order", "", False),
    "a summary": (CHAT, hooked(summarise), "message", "summarise", "", False),
    "a hook offers a tool": (CLAUDE, hooked(offer), "tools", "offer", "late", False),
    "a hook withdraws a tool": (GEMINI, hooked(withdraw), "tools", "withdraw", "listen", False),
    "a tool finds another": (CHAT, in_tool(find), "tools", "", "late", False),
    "tools in another order": (BEDROCK, in_tool(turn_round), "tools", "", "listen", False),
    "another system text": (RESPONSES, between(set_system), "system", "", "", False),
    "an edited message": (CLAUDE, between(edit), "message", "", "", False),
    "another amount of thinking": (CLAUDE, between(think), "option", "", "", False),
    "another model": (CLAUDE, between(move), "model", "", "", False),
}


@pytest.mark.parametrize("name", BREAKERS)
async def test_who_breaks_the_cache_is_named(name: str) -> None:
    provider, plant, part, hook, tool_name, is_time = BREAKERS[name]
    case = Case(provider)
    plant(case)
    found = await case.run()
    assert found is not None
    assert (found.part, found.hook, found.tool, found.is_time) == (part, hook, tool_name, is_time)
    assert all(each in str(found) for each in (found.path, hook, tool_name))


@pytest.mark.parametrize("provider", [CLAUDE, CHAT, RESPONSES, GEMINI, BEDROCK], ids=str)
async def test_a_worker_that_changes_nothing_is_not_blamed(provider: Provider) -> None:
    case = Case(provider)
    assert await case.run() is None
    use = case.meter.use
    assert (use.requests, use.could_read, use.read) == (6, 25_000, 0)
    assert use.missed == 5_000


def edits_of(hooks: Sequence[Hook[Any]]) -> list[tuple[str, str | None]]:
    """The hooks that have changed the request of a run, and the system text that each received."""
    seen: list[tuple[str, str | None]] = []

    class Noted(CacheMeter):
        def stream(self, request: Any) -> Any:
            seen.extend((name, before.conversation.system) for name, before in request.edits)
            return super().stream(request)

    Worker(Noted(CLAUDE, transport=Script(0)), hooks=hooks).run_sync("Hi")
    return seen


def failing(context: MessageSendContext) -> None:
    context.system = "Never sent."
    raise ValueError


def idle(context: MessageSendContext) -> None:
    context.system = context.system or None


def say_a(context: MessageSendContext) -> None:
    context.system = f"{context.system or ''}a"


def test_a_request_has_the_hooks_that_changed_it_and_no_others() -> None:
    kinds = (say_a, failing, idle, say_a)
    hooks = [on_message_send(each, name=each.__name__, on_failure="continue") for each in kinds]
    assert edits_of(hooks) == [("say_a", None), ("say_a", "a")]
    assert edits_of([]) == []


async def test_a_request_that_cannot_be_made_fails_as_without_a_meter() -> None:
    meter = CacheMeter(Anthropic("claude-opus-5-5", api_key="k"), transport=Script(0))
    errors: list[str] = []
    for model in (meter, meter.provider):
        with pytest.raises(Exception, match="temperature") as caught:
            await Worker(model, options=Options(temperature=0.2)).run("Hi")
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    assert meter.use.requests == 0


def test_two_tool_calls_with_text_arguments_can_be_noted() -> None:
    """A copy of what a hook has left is made of calls whose arguments are not an object, too."""
    broken = ToolCall("c", "look", '{"at": ')
    kept = Conversation((Message.user("Hi"), Message.assistant(broken), Message.user("Go on")))
    context = MessageSendContext(conversation=kept, emit=lambda _: None)
    context.messages[2] = Message.user(ToolResult("c", "no"), "Go on")
    context.note("repair")
    assert [name for name, _, _ in context.edits] == ["repair"]
    assert msgspec.to_builtins(context.edits[0][1]) == msgspec.to_builtins(kept)


@pytest.mark.parametrize(
    ("now", "is_noted"),
    [
        ({"a": 1, "b": [{"c": True}]}, False),
        ({"b": [{"c": True}], "a": 1}, True),
        ({"a": 1.0, "b": [{"c": True}]}, True),
        ({"a": 1, "b": [{"c": 1}]}, True),
        ({"a": 1, "b": []}, True),
    ],
)
def test_what_a_cache_sees_of_arguments_is_noted(now: JsonObject, is_noted: bool) -> None:
    """Also what is equal to Python."""
    called = Message.assistant(ToolCall("c", "look", {"a": 1, "b": [{"c": True}]}))
    kept = Conversation((Message.user("Hi"), called, Message.user(ToolResult("c", "no"))))
    context = MessageSendContext(conversation=kept, emit=lambda _: None)
    (call_,) = context.messages[1].tool_calls
    assert not isinstance(call_.input, str)
    call_.input.clear()
    call_.input.update(now)
    context.note("hook")
    assert [name for name, _, _ in context.edits] == ["hook"] * is_noted
