from __future__ import annotations

from collections.abc import Callable

import pytest

from rxworker import Worker, before_tool_call, hook, on_turn_end, tool
from rxworker.errors import ConfigurationError, HookError, RunAbortedError
from rxworker.events import ConversationReplace, HookMessage, HookVerdict, MessageAdd
from rxworker.hooks import (
    Abort,
    Continue,
    Hook,
    HookContext,
    HookPoint,
    Hooks,
    Skip,
    ToolCallContext,
    Verdict,
    chain,
    legacy,
)
from rxworker.hooks.decorate import HookLike
from rxworker.testing import NEVER, HookStub, ScriptedModel, call, call_context
from rxworker.testing.hooks import HookAnswer
from tests.hooks.asking import verdict_of


def stub(name: str, *answers: HookAnswer) -> HookStub:
    return HookStub("before_tool_call", *answers, name=name)


async def ask(*hooks: HookLike) -> tuple[Verdict, str, list[tuple[str, str]]]:
    heard: list[HookVerdict] = []
    context = call_context("read", path="a")
    verdict, name = await verdict_of(Hooks(hooks), HookPoint.BEFORE_TOOL_CALL, context, heard.append)
    return verdict, name, [(event.hook, event.verdict) for event in heard]


async def test_a_chain_calls_its_hooks_until_one_returns_a_verdict() -> None:
    first, second, third = stub("first"), stub("second", Skip("no")), stub("third")
    verdict, name, heard = await ask(chain(first, second, third, name="safety"))
    assert (verdict, name) == (Skip("no"), "safety/second")
    assert heard == [("safety/second", "Skip")]
    assert (first.call_count, third.call_count) == (1, 0)


async def test_a_chain_where_all_go_on_goes_on() -> None:
    after = stub("after")
    assert await ask(chain(stub("a"), stub("b")), after) == (Continue(), "", [])
    assert after.call_count == 1


async def test_chains_in_chains_carry_the_whole_way_in_their_names() -> None:
    inner = chain(stub("a"), stub("b", Abort("no")), name="inner")
    verdict, name, _ = await ask(chain(stub("c"), inner, name="outer"))
    assert (verdict, name) == (Abort("no"), "outer/inner/b")


async def test_a_message_carries_the_way_to_its_hook() -> None:
    @before_tool_call
    def tell(context: ToolCallContext) -> None:
        context.send_message("hello")

    heard: list[HookMessage | MessageAdd | ConversationReplace] = []
    context = call_context("read", fields={"received": heard})
    await verdict_of(Hooks([chain(tell, name="c")]), tell.point, context, print)
    assert heard == [HookMessage("c/tell", "message", "hello")]


async def test_the_hooks_of_a_chain_keep_their_own_settings_and_order() -> None:
    order: list[str] = []

    def note(name: str, **settings: object) -> Hook[ToolCallContext]:
        return before_tool_call(name=name, **settings)(lambda _: order.append(name))  # type: ignore[arg-type]

    c = chain(note("a"), note("b", priority=1), note("c", matcher="delete"), note("d", before="a"))
    await ask(c)
    assert order == ["b", "d", "a"]
    assert c.name == "b+c+d+a"


async def test_the_settings_of_a_chain_are_for_all_of_them() -> None:
    inner = stub("inner", Skip())
    assert (await ask(chain(inner, matcher="delete")))[0] == Continue()
    with pytest.raises(HookError, match=r"hook 'slow' failed at before_tool_call: it took longer"):
        await ask(chain(stub("a", NEVER), name="slow", timeout=0.01))
    assert inner.call_count == 0


async def test_a_failure_within_is_reported_once_and_has_the_effect_that_the_chain_sets() -> None:
    failing = stub("a", OSError("x"))
    with pytest.raises(HookError, match=r"hook 'c/a' failed at before_tool_call: OSError: x"):
        await ask(chain(failing, name="c"))
    failing, after = stub("a", OSError("x")), stub("b")
    verdict, _, heard = await ask(chain(failing, after, name="c", on_failure="continue"))
    assert (verdict, heard, after.call_count) == (Continue(), [("c/a", "Failed")], 0)


def broken(_: ToolCallContext) -> bool:
    raise OSError("x")


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: chain(stub("a", NEVER), name="c", on_failure="skip", timeout=0.01), ["c Failed", "c Skip"]),
        (lambda: chain(stub("a"), name="c", on_failure="skip", when=broken), ["c Failed", "c Skip"]),
        (lambda: chain(stub("a", OSError("x")), name="c", on_failure="skip"), ["c/a Failed", "c Skip"]),
        (lambda: chain(stub("a", NEVER), name="c", on_failure="continue", timeout=0.01), ["c Failed"]),
    ],
)
async def test_what_fails_of_a_chain_itself_is_reported_and_so_is_what_it_does_about_it(
    make: Callable[[], HookLike], expected: list[str]
) -> None:
    _, _, heard = await ask(make())
    assert [" ".join(each) for each in heard] == expected


async def test_a_foreign_verdict_within_is_an_error_whatever_the_chain_sets() -> None:
    with pytest.raises(HookError, match="hook 'c/a' answered 'yes'"):
        await ask(chain(stub("a", "yes"), name="c", on_failure="continue"))


async def test_a_chain_is_called_by_hand_like_any_hook() -> None:
    both = chain(stub("a"), stub("b", Skip("no")))
    assert await both(call_context("read")) == Skip("no")
    assert await chain(stub("a"))(call_context("read")) is None


async def test_an_object_may_be_in_a_chain_and_a_chain_keeps_its_hooks_under_other_settings() -> None:
    class Gate:
        def before_tool_call(self, context: HookContext) -> Skip:
            return Skip()

    gated = chain(Gate(), name="c").replace(name="d")
    assert (await ask(gated))[1] == "d/Gate"


def test_a_chain_is_of_hooks_of_one_point() -> None:
    @on_turn_end
    def end(context: HookContext) -> None: ...

    with pytest.raises(ConfigurationError, match="these are of: before_tool_call, on_turn_end"):
        chain(stub("a"), end)
    with pytest.raises(ConfigurationError, match="these are of: none"):
        chain()


async def test_an_end_within_a_chain_ends_the_run_with_the_hooks_name() -> None:
    @hook("OnTurnCompleted")
    def fail(context: HookContext) -> legacy.LegacyError:
        return legacy.LegacyError("not good enough")

    worker = Worker(ScriptedModel(["Hm."]), hooks=[chain(fail, name="c", on_failure="continue")])
    with pytest.raises(RunAbortedError, match="by hook 'c/fail': not good enough"):
        await worker.run("hi")


@tool
async def read(path: str) -> str:
    """Read a file."""
    return path


async def test_a_chain_is_listed_and_removed_as_one() -> None:
    blocked = chain(stub("a"), stub("b", Skip("no")), name="safety")
    model = ScriptedModel([call("read", path="a"), "Done.", call("read", path="a"), "Done."])
    worker = Worker(model, tools=[read], hooks=[blocked])
    assert worker.hooks.list() == [("safety", "before_tool_call")]
    await worker.run("Read.")
    assert worker.hooks.remove("safety")
    await worker.run("Read.")
    results = [r for m in worker.session.conversation.messages for r in m.tool_results]
    assert [result.is_error for result in results] == [True, False]
