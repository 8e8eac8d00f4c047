"""Following a run or a stream as server-sent events.

A client that keeps up is pushed to, one that is behind reads, and each receives every event once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, cast

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from reactivex.subject import Subject

from rxworker.boards import publish
from rxworker.hub import Reliable
from rxworker.ui.web import Settings, WebRequest
from rxworker.ui.web.runs.store import RunStore
from rxworker.ui.web.streams.published import StreamEntry
from rxworker.ui.web.streams.streams import Streams

DETACH = Reliable(limit=50, when_full="detach")


class Response:
    """A response whose client is behind as often as it is given."""

    def __init__(self, behind: list[bool], *, writes_now: bool = True) -> None:
        self.writes_now = writes_now
        self.pieces: list[bytes] = []
        self.pushed = 0
        self.has_ended = self.is_aborted = False
        self._behind = behind

    def write_now(self, data: bytes) -> bool:
        if not self.writes_now:
            return False
        if self._behind and self._behind.pop():
            return False
        self.pushed += 1
        self.pieces.append(data)
        return True

    async def write(self, data: bytes) -> None:
        await asyncio.sleep(0)
        self.pieces.append(data)

    async def end(self) -> None:
        self.has_ended = True

    def abort(self) -> None:
        self.is_aborted = True

    @property
    def ids(self) -> list[int]:
        lines = b"".join(self.pieces).decode().splitlines()
        return [int(line.rpartition("-")[2]) for line in lines if line.startswith("id: ")]


class Request:
    """A request with this response."""

    method, raw_path = "GET", "/"

    def __init__(self, response: Response) -> None:
        self._response = response

    async def stream(self, headers: Mapping[str, str]) -> Response:
        return self._response


def follow(entry: StreamEntry, response: Response, after: int = 0) -> asyncio.Task[None]:
    settings = Settings()
    streams = Streams(settings, RunStore(settings))
    request = cast("WebRequest", Request(response))
    followed = entry.followed(entry.frames, "")
    return asyncio.create_task(streams.follow(request, followed, after, entry.end_frame))


@given(
    st.lists(st.booleans(), max_size=12),
    st.lists(st.one_of(st.integers(1, 5), st.just(0)), max_size=20),
    st.sampled_from([None, DETACH]),
    st.integers(0, 3),
)
def test_each_event_is_written_once_in_order_however_often_the_client_is_behind(
    behind: list[bool], steps: list[int], delivery: Any, after: int
) -> None:
    async def play() -> None:
        source = Subject[int]()
        stream = publish("count", source, delivery=delivery)
        entry = StreamEntry(stream, None)
        for number in range(after):  # which the clients have
            source.on_next(number + 1)
        responses = [Response(behind[:]), Response([]), Response([], writes_now=False)]
        following = [follow(entry, response, after) for response in responses]
        for _ in range(3):  # until they watch
            await asyncio.sleep(0)
        assert stream.hub.watching == 3
        count = after
        for step in steps:
            for _ in range(step):
                count += 1
                source.on_next(count)
            if step == 0:
                await asyncio.sleep(0)
        source.on_completed()
        await asyncio.gather(*following)
        for response in responses:
            assert response.ids == list(range(after + 1, count + 1))
            assert response.pieces[-1].startswith(b"event: end")
            assert response.has_ended
            assert not response.is_aborted
        assert stream.hub.watching == 0
        assert responses[2].pushed == 0

    asyncio.run(play())


async def test_a_client_that_keeps_up_is_pushed_to() -> None:
    source = Subject[int]()
    entry = StreamEntry(publish("count", source), None)
    response = Response([])
    following = follow(entry, response)
    for _ in range(3):
        await asyncio.sleep(0)
    for n in range(100):
        await asyncio.sleep(0)
        source.on_next(n)
    source.on_completed()
    await following
    assert response.pushed >= 98
    assert entry.item.count == 100


@pytest.mark.parametrize("turns", range(8))
@pytest.mark.parametrize("behind", [[], [True], [True, True]], ids=str)
async def test_a_client_that_leaves_is_detached_wherever_it_is(turns: int, behind: list[bool]) -> None:
    source = Subject[int]()
    stream = publish("count", source)
    response = Response(behind[:])
    following = follow(StreamEntry(stream, None), response)
    for n in range(turns):
        await asyncio.sleep(0)
        source.on_next(n)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert stream.hub.watching == 0
    source.on_next(99)
    await asyncio.sleep(0)
    assert 100 not in response.ids


async def test_an_error_of_the_observable_is_the_end_of_the_events() -> None:
    source = Subject[int]()
    response = Response([])
    following = follow(StreamEntry(publish("count", source), None), response)
    await asyncio.sleep(0)
    source.on_next(1)
    source.on_error(ValueError("no"))
    await following
    assert response.ids == [1]
    assert response.pieces[-1] == b'event: end\ndata: {"status":"aborted","reason":"no"}\n\n'


async def test_a_stream_that_has_ended_is_sent_at_once() -> None:
    response = Response([])
    await follow(StreamEntry(publish("count", reactivex.range(1, 4), keep="all"), None), response)
    assert response.ids == [1, 2, 3]


@pytest.mark.parametrize("error", [ConnectionResetError, OSError])
async def test_a_client_that_leaves_before_the_response_begins_is_not_an_error(
    error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    class Leaving(Request):
        async def stream(self, headers: Mapping[str, str]) -> Response:
            raise error

    entry = StreamEntry(publish("count", Subject[int]()), None)
    streams = Streams(Settings(), RunStore(Settings()))
    request = cast("WebRequest", Leaving(Response([])))
    followed = entry.followed(entry.frames, "")
    with nullcontext() if error is ConnectionResetError else pytest.raises(error):
        await streams.follow(request, followed, 0, entry.end_frame)
    assert not caplog.records
