import pytest

from rxworker.testing import GARBAGE, Answer, say, stall
from rxworker.testing.answer import ending, pieces

FRAMES = [b"aaaa", b"bbbb", b"cccc"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(()), [b"aaaa", b"bbbb", b"cccc"]),
        (Answer((), chunk=5), [b"aaaab", b"bbbcc", b"cc"]),
        (Answer((), cut_after=2), [b"aaaa", b"bbbb"]),
        (Answer((), cut_after=0), []),
        (Answer((), cut_at=6), [b"aaaa", b"bb"]),
        (Answer((), cut_at=3, chunk=1), [b"a", b"a", b"a"]),
        (Answer((), stall_after=1), [b"aaaa"]),
        (Answer((), stall_at=5), [b"aaaa", b"b"]),
        (Answer((), stall_at=100), [b"aaaa", b"bbbb", b"cccc"]),
        (Answer((), garbage_after=1), [b"aaaa", GARBAGE, b"bbbb", b"cccc"]),
    ],
)
def test_faults_decide_what_is_written(answer: Answer, expected: list[bytes]) -> None:
    assert pieces(answer, FRAMES) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Answer(()), "end"),
        (Answer((), cut_at=1), "cut"),
        (Answer((), cut_after=1), "cut"),
        (Answer((), stall_at=1), "stall"),
        (Answer((), stall_after=1), "stall"),
        (Answer.from_reply(stall()), "stall"),
        (Answer.from_reply(say("x") + stall(), cut_after=1), "cut"),
    ],
)
def test_faults_decide_how_it_ends(answer: Answer, expected: str) -> None:
    assert ending(answer) == expected
