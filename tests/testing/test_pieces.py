import pytest

from rxworker.testing import ServedResponse, say, stall
from rxworker.testing.server import GARBAGE, ending, pieces

FRAMES = [b"aaaa", b"bbbb", b"cccc"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ServedResponse(()), [b"aaaa", b"bbbb", b"cccc"]),
        (ServedResponse((), chunk=5), [b"aaaab", b"bbbcc", b"cc"]),
        (ServedResponse((), cut_after=2), [b"aaaa", b"bbbb"]),
        (ServedResponse((), cut_after=0), []),
        (ServedResponse((), cut_at=6), [b"aaaa", b"bb"]),
        (ServedResponse((), cut_at=3, chunk=1), [b"a", b"a", b"a"]),
        (ServedResponse((), stall_after=1), [b"aaaa"]),
        (ServedResponse((), stall_at=5), [b"aaaa", b"b"]),
        (ServedResponse((), stall_at=100), [b"aaaa", b"bbbb", b"cccc"]),
        (ServedResponse((), garbage_after=1), [b"aaaa", GARBAGE, b"bbbb", b"cccc"]),
    ],
)
def test_faults_decide_what_is_written(answer: ServedResponse, expected: list[bytes]) -> None:
    assert pieces(answer, FRAMES) == expected


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (ServedResponse(()), "end"),
        (ServedResponse((), cut_at=1), "cut"),
        (ServedResponse((), cut_after=1), "cut"),
        (ServedResponse((), stall_at=1), "stall"),
        (ServedResponse((), stall_after=1), "stall"),
        (ServedResponse.from_reply(stall()), "stall"),
        (ServedResponse.from_reply(say("x") + stall(), cut_after=1), "cut"),
    ],
)
def test_faults_decide_how_it_ends(answer: ServedResponse, expected: str) -> None:
    assert ending(answer) == expected
