import pytest

from rxworker.events import Usage
from rxworker.events.meta import TRUNCATED
from rxworker.messages import StopKind, StopReason, Text, Thinking, ToolCall
from rxworker.testing import Call, Reply, call, cut, fail, say, stall, think


def test_parts_add_up_to_one_reply() -> None:
    reply = think("hm", "seal") + say("Let me ") + say("look.") + call("a", x=1) + call("b")

    assert reply.blocks("call_1") == (
        Thinking("hm", "seal"),
        Text("Let me look."),
        ToolCall("call_1_1", "a", {"x": 1}),
        ToolCall("call_1_2", "b", {}),
    )


def test_a_call_keeps_an_id_of_its_own() -> None:
    reply = Reply(tool_calls=(Call("a", id="mine"), Call("b")))

    assert [block.id for block in reply.blocks("c") if isinstance(block, ToolCall)] == ["mine", "c_2"]


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (say("x"), StopKind.END_TURN),
        (say("x") + call("a"), StopKind.TOOL_USE),
        (say("x", stop=StopKind.MAX_TOKENS) + call("a"), StopKind.MAX_TOKENS),
        (say("x", stop=StopReason(StopKind.OTHER, "odd")), StopKind.OTHER),
    ],
)
def test_the_stop_reason_is_inferred_unless_it_is_given(reply: Reply, kind: StopKind) -> None:
    assert reply.stop_reason.kind is kind


def test_the_second_part_has_the_last_word_on_usage_and_size() -> None:
    usage = Usage(input_tokens=1)

    assert (say("a", usage=usage, chunk=2) + say("b")).usage is usage
    assert (say("a") + say("b", usage=None)).usage is None
    assert (say("a", chunk=2) + say("b")).chunk == 2


def test_failures_know_whether_another_try_helps() -> None:
    assert [fail("m", kind).error for kind in ("rate_limit", "quota")] == [
        fail("m", "rate_limit", retryable=True).error,
        fail("m", "quota", retryable=False).error,
    ]
    error = cut().error
    assert error is not None
    assert (error.code, error.retryable) == (TRUNCATED, True)


def test_a_stalled_or_failed_reply_breaks() -> None:
    assert [reply.breaks for reply in (say("x"), say("x") + stall(), say("x") + cut())] == [False, True, True]
