"""How often clients are sent something: deltas in step, everything that begins or ends at once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import pytest

from rxworker.errors import ConfigurationError
from rxworker.events import Record, TurnStop
from rxworker.hub import Coalesce, Hub
from rxworker.testing import call, say
from rxworker.ui.web import Settings
from rxworker.ui.web.streams.streams import AT_ONCE, Followed, send_records

from .conftest import Desk, OpenDesk

Client = Callable[["Desk"], Awaitable[tuple[int, str]]]
DELTAS = 200
TEXT = "word " * DELTAS
LIFECYCLE = 16
"""More events than a run of one turn has besides its deltas."""


async def pieces_of(desk: Desk, method: str, path: str, body: object = None) -> tuple[int, str]:
    """How many pieces an answer came in, and its text."""
    count, data = 0, b""
    async with desk.http.request(method, desk.url(path), json=body) as response:
        async for piece, is_end in response.content.iter_chunks():
            data += piece
            count += is_end
    return count, data.decode()


async def events(desk: Desk) -> tuple[int, str]:
    run = await desk.begin()
    return await pieces_of(desk, "GET", f"api/runs/{run['id']}/events")


async def ag_ui(desk: Desk) -> tuple[int, str]:
    run = await desk.begin()
    return await pieces_of(desk, "GET", f"api/runs/{run['id']}/ag-ui")


async def chat(desk: Desk) -> tuple[int, str]:
    parts = [{"type": "text", "text": "hi"}]
    body = {"id": "c", "messages": [{"id": "1", "role": "user", "parts": parts}]}
    return await pieces_of(desk, "POST", "api/chat", body)


async def socket(desk: Desk) -> tuple[int, str]:
    run = await desk.begin()
    count, text = 0, ""
    async with desk.socket() as connection:
        await connection.send_json({"type": "watch", "run": run["id"]})
        while '"type":"end"' not in text:
            text += await connection.receive_str()
            count += 1
    return count, text


def words_of(text: str) -> int:
    return text.count("word")


@pytest.mark.product(2)
@pytest.mark.parametrize("client", [events, ag_ui, chat, socket])
async def test_deltas_are_sent_in_step(open_desk: OpenDesk, client: Client) -> None:
    # A thousand seconds are between two writes: besides the first, none is made because it is time.
    settings = Settings(writes_per_second=0.001)
    desk = await open_desk(say(TEXT, chunk=5), settings=settings, delay=0.0005)
    count, text = await client(desk)
    assert words_of(text) == DELTAS
    assert count <= LIFECYCLE + 2


@pytest.mark.product(2)
@pytest.mark.unlogged
@pytest.mark.parametrize("client", [events, ag_ui, chat, socket])
async def test_every_delta_is_sent_where_it_is_set(open_desk: OpenDesk, client: Client) -> None:
    settings = Settings(writes_per_second=None)
    desk = await open_desk(say(TEXT, chunk=5), settings=settings, delay=0.0005)
    count, text = await client(desk)
    assert words_of(text) == DELTAS
    assert count > DELTAS / 4


async def test_the_first_delta_and_an_approval_do_not_wait(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("Now. ") + call("delete", path="a"), settings=Settings(writes_per_second=0.001))
    run = await desk.begin()
    async with asyncio.timeout(60):  # a thousand seconds are between two writes
        frames = await desk.frames(f"api/runs/{run['id']}/events")
    kinds = [json.loads(f["data"])["event"]["type"] for f in frames if "id" in f]
    assert kinds[-1] == "run_pause"


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), 1e6])
def test_a_rate_is_a_number_of_writes(rate: float) -> None:
    with pytest.raises(ConfigurationError, match="writes_per_second"):
        Settings(writes_per_second=rate)


async def test_a_long_run_is_encoded_in_pieces_with_a_turn_of_the_loop_between_them() -> None:
    hub = Hub()
    hub.push_many([Record(seq, "r", 1, 1, 0.0, TurnStop()) for seq in range(1, 5_001)])
    hub.end()
    sizes: list[int] = []
    turns: list[int] = []

    async def count_turns() -> None:
        while True:
            turns.append(len(sizes))
            await asyncio.sleep(0)

    def encode(records: Sequence[Record]) -> bytes:
        sizes.append(len(records))
        return b""

    class Reading:
        writes_now = False

        def write_now(self, piece: bytes, /) -> bool:
            return True

        async def write(self, piece: bytes, /) -> None:
            raise AssertionError

    counting = asyncio.create_task(count_turns())
    await send_records(Reading(), Followed(hub, encode, Coalesce(), ""), 0)
    counting.cancel()
    assert sum(sizes) == 5_000
    assert max(sizes) <= AT_ONCE
    assert set(range(1, len(sizes))) <= set(turns)  # another task has run between any two
