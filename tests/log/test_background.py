"""Responses that go on at the service while the process of their run ends.

Another process continues them, and they are not paid twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from reactivex import operators as ops

from rxworker import Finished, Paused, Worker, tool
from rxworker.errors import RunCancelledError, RunHandedOverError
from rxworker.events import AttemptRetract, AttemptStart, HandOver, Record, RunRecover, Status, TextDelta, ToolStart
from rxworker.log import MemoryLog
from rxworker.log.format import Entry
from rxworker.log.values import Command, send_command
from rxworker.messages import Message
from rxworker.operators import coalesce
from rxworker.providers import GeminiInteractions, OpenAIResponses
from rxworker.state import fold_run
from rxworker.testing import ReplayServer, ScriptedModel, ServedResponse, call, lint, say, think
from rxworker.testing.server import Received
from rxworker.testing.wire.gemini_interactions import gemini_interactions_frames
from rxworker.transport import Client, Retry, fallback
from rxworker.transport.clock import loop_clock
from rxworker.turn.stages import respond
from tests.log.background import BACKGROUND, TEXT, called, frames_of, message, thought, worker_of
from tests.log.processes import stored
from tests.log.test_recover import cut, singles

CALL = frames_of([thought(), message(["Let", " me"]), called("look", ['{"n"', ": 1}"])], "resp/1")
ANSWER = frames_of([message()], "resp/2")
GONE: Any = {"error": {"message": "Response with id 'resp/1' not found.", "type": "invalid_request_error"}}  # fmt: skip


class Service:
    """Answers a conversation with a call, and its result with a text; and any response again, after a number."""

    def __init__(self, stall_after: int | None = None) -> None:
        self.posts = 0
        self.resumed: list[str] = []
        self.cancelled: list[str] = []
        self.is_gone = False
        self.first = CALL
        self.keys: list[str] = []
        self._stall = stall_after

    def __call__(self, received: Received) -> ServedResponse:
        self.keys.append(received.headers.get("authorization", ""))
        path = urlsplit(received.path)
        if received.method == "GET":
            assert path.path in ("/v1/responses/resp%2F1", "/v1/responses/resp%2F2")
            self.resumed.append(path.path[-1])
            if self.is_gone:
                return ServedResponse.from_status(404, body=GONE)
            after = int(parse_qs(path.query)["starting_after"][0])
            frames = self.first if path.path.endswith("1") else ANSWER
            return ServedResponse.from_frames(frames[after + 1 :])
        if path.path.endswith("/cancel"):
            self.cancelled.append(path.path.split("/")[-2])
            return ServedResponse.from_json({"id": "resp/1"})
        self.posts += 1
        is_answer = b"function_call_output" in msgspec.json.encode(received.body)
        stall, self._stall = self._stall, None
        frames = ANSWER if is_answer else self.first
        return msgspec.structs.replace(ServedResponse.from_frames(frames), stall_after=stall)


@tool(effect="idempotent")
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


async def whole() -> tuple[str, list[Entry]]:
    """A run that was not disturbed, a record in each entry."""
    async with ReplayServer(Service()) as server, MemoryLog() as log:
        run = worker_of(log, server.base_url, tools=[look]).run("Begin.")
        assert (await run).text == "".join(TEXT)
        return run.id, singles([entry async for entry in log.read(run.id)], run.id)


def kinds(records: Sequence[Record]) -> list[type[object]]:
    return [type(record.event) for record in records]


def is_gapless(records: Sequence[Record]) -> bool:
    return [record.seq for record in records] == list(range(1, len(records) + 1))


async def begun(run: Any, text: str = "Let") -> None:
    """Wait for a text of a run."""
    async for record in run:
        if isinstance(record.event, TextDelta) and record.event.text == text:
            return


@pytest.mark.parametrize("is_coalesced", [False, True])
async def test_a_run_that_is_cut_anywhere_continues_its_response(is_coalesced: bool) -> None:
    run, entries = await whole()
    starts = [n for n, entry in enumerate(entries) if entry.kind == "status"][::2]
    ends = [n for n, entry in enumerate(entries) if entry.kind == "status"][1::2]
    operators = [coalesce(0.05, loop_clock())] if is_coalesced else []
    for start, end in zip(starts, ends, strict=True):
        for length in range(start + 1, end + 1, 3 if is_coalesced else 1):
            service, log = Service(), await cut(run, entries[:length])
            async with ReplayServer(service) as server:
                worker = worker_of(log, server.base_url, tools=[look], operators=operators)
                result = await worker.recover(run)
            assert isinstance(result, Finished)
            assert result.text == "".join(TEXT)
            assert [r.text for m in result.conversation.messages for r in m.tool_results] == ["saw 1"]
            # The second request alone, which the tool's result makes.
            assert (service.posts, len(service.resumed)) == (int(start == starts[0]), 1)
            records = await stored(log, run)
            assert is_gapless(records)
            assert lint(records) == []
            assert (AttemptRetract in kinds(records), kinds(records).count(AttemptStart)) == (False, 2)
            if not is_coalesced:
                whole_kinds = [entry.kind for entry in entries]
                again = [msgspec.to_builtins(r.event)["type"] for r in records]
                assert [kind for kind in again if kind != "run_recover"] == whole_kinds


async def test_an_interaction_of_gemini_continues_too() -> None:
    """Its events have names and no numbers, and all of them are requested."""
    reply = think("Hm, so.", "AAAA") + say("One moment.", chunk=3) + call("look", n=1)
    parts = [gemini_interactions_frames(each, is_background=True) for each in (reply, say("Blue."))]
    posts: list[bool] = []

    def answer(received: Received) -> ServedResponse:
        body = msgspec.json.encode(received.body)
        is_second = b"function_result" in body if received.method == "POST" else False
        if received.method == "POST":
            posts.append(is_second)
        else:
            assert received.path == "/v1beta/interactions/v1_1?stream=true"
        return ServedResponse.from_frames(parts[is_second])

    async with ReplayServer(answer) as server:

        def worker(log: MemoryLog) -> Worker:
            model = GeminiInteractions("gemini-3.5-flash", api_key="k", base_url=server.base_url)
            return Worker(model, tools=[look], options=BACKGROUND, log=log)

        async with MemoryLog() as log:
            run = worker(log).run("Begin.")
            assert (await run).text == "Blue."
            entries = singles([entry async for entry in log.read(run.id)], run.id)
        start, end = [n for n, entry in enumerate(entries) if entry.kind == "status"][:2]
        assert end > start + 8
        for length in range(start + 1, end + 1):
            posts.clear()
            log = await cut(run.id, entries[:length])
            assert (await worker(log).recover(run.id)).text == "Blue."
            records = await stored(log, run.id)
            assert (posts, is_gapless(records), lint(records)) == ([True], True, [])
            assert AttemptRetract not in kinds(records)


async def test_before_the_start_of_a_response_is_stored_its_request_is_sent_again() -> None:
    run, entries = await whole()
    start = [entry.kind for entry in entries].index("status")
    service, log = Service(), await cut(run, entries[:start])
    async with ReplayServer(service) as server:
        await worker_of(log, server.base_url, tools=[look]).recover(run)
    assert (service.posts, service.resumed) == (2, [])


async def test_operators_see_the_whole_response() -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    seen: list[object] = []
    async with ReplayServer(Service()) as server:
        operators = [ops.do_action(seen.append)]
        await worker_of(log, server.base_url, tools=[look], operators=operators).recover(run)
    assert TextDelta(1, "Let") in seen


async def test_a_response_that_is_gone_is_requested_again(caplog: pytest.LogCaptureFixture) -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    service = Service()
    service.is_gone = True
    async with ReplayServer(service) as server:
        with caplog.at_level(logging.WARNING, "rxworker.worker"):
            result = await worker_of(log, server.base_url, tools=[look]).recover(run)
    records = await stored(log, run)
    assert (result.text, service.posts, service.cancelled) == ("".join(TEXT), 2, [])
    assert (is_gapless(records), lint(records)) == (True, [])
    assert kinds(records).count(AttemptRetract) == 1
    assert "the response resp/1 cannot be continued, so it is requested again" in caplog.text
    (retraction,) = [r.event for r in records if isinstance(r.event, AttemptRetract)]
    assert "not found" in retraction.reason


async def test_a_response_that_differs_from_what_is_stored_is_recorded_again() -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    service = Service()
    service.first = frames_of([message(["Well", " then"]), called("look", ['{"n": 1}'])], "resp/1")
    async with ReplayServer(service) as server:
        result = await worker_of(log, server.base_url, tools=[look]).recover(run)
    records = await stored(log, run)
    assert (result.text, service.posts, service.cancelled) == ("".join(TEXT), 1, [])
    assert "Well then" in [m.text for m in result.conversation.messages]
    assert (is_gapless(records), lint(records)) == (True, [])
    assert kinds(records).count(AttemptRetract) == 1


async def test_a_pure_tool_that_started_early_makes_the_response_be_recorded_again(log: MemoryLog) -> None:
    @tool(effect="pure")
    async def look(n: int) -> str:
        """Look."""
        return f"saw {n}"

    service = Service(stall_after=len(CALL) - 1)
    async with ReplayServer(service) as server:
        run = worker_of(log, server.base_url, tools=[look]).run("Begin.")
        async for record in run:
            if isinstance(record.event, ToolStart):
                break
        await run.hand_over()
        result = await worker_of(log, server.base_url, tools=[look]).recover(run.id)
    assert (result.text, service.posts, service.cancelled) == ("".join(TEXT), 2, [])
    records = await stored(log, run.id)
    assert (is_gapless(records), lint(records)) == (True, [])
    assert kinds(records).count(AttemptRetract) == 1


@pytest.mark.parametrize("is_handed_over", [True, False])
async def test_a_process_that_leaves_does_not_cancel_the_response(is_handed_over: bool, log: MemoryLog) -> None:
    """It hands the run over, or another process has taken it."""
    service = Service(stall_after=len(CALL) - 4)
    async with ReplayServer(service) as server:
        run = worker_of(log, server.base_url, tools=[look]).run("Begin.")
        await begun(run)
        if is_handed_over:
            await run.hand_over()
            with pytest.raises(RunHandedOverError):
                run.result()
            assert kinds(await stored(log, run.id))[-1] is HandOver
        else:
            writer = run._journal.writer
            assert writer is not None
            await writer.barrier()
            writer._lose()
            await asyncio.wait([asyncio.ensure_future(run)])
            log.heartbeat.remove(run.id)
            assert writer.claim is not None
            await log.release(writer.claim)
        result = await worker_of(log, server.base_url, tools=[look]).recover(run.id)
    assert (result.text, service.posts, service.cancelled) == ("".join(TEXT), 2, [])
    records = await stored(log, run.id)
    assert (is_gapless(records), lint(records)) == (True, [])
    assert AttemptRetract not in kinds(records)


async def test_a_run_that_is_cancelled_between_two_processes_cancels_its_response() -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    await log.send(run, Command("cancel", {"reason": "enough"}))
    service = Service()
    async with ReplayServer(service) as server:
        with pytest.raises(RunCancelledError, match="enough"):
            await worker_of(log, server.base_url, tools=[look]).recover(run)
        await server.wait_requests(1)
    assert (service.posts, service.cancelled) == (0, ["resp%2F1"])
    records = await stored(log, run)
    assert (is_gapless(records), lint(records)) == (True, [])


@pytest.mark.parametrize("is_logged", [True, False])
async def test_a_cancelled_run_ends_when_its_response_is_cancelled(is_logged: bool) -> None:
    """A script may end with it."""
    service = Service(stall_after=len(CALL) - 4)
    async with ReplayServer(service) as server, MemoryLog() as log:
        run = worker_of(log if is_logged else None, server.base_url, tools=[look]).run("Begin.")
        await begun(run)
        await run.cancel()
        assert service.cancelled == ["resp%2F1"]


async def test_a_continued_response_is_cancelled_with_its_run() -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])

    class Stalling(Service):
        def __call__(self, received: Received) -> ServedResponse:
            answer = super().__call__(received)
            is_stream = received.method == "GET"
            return msgspec.structs.replace(answer, stall_after=12) if is_stream else answer

    service = Stalling()
    async with ReplayServer(service) as server:
        recovered = worker_of(log, server.base_url, tools=[look]).recover(run)
        await begun(recovered, " me")
        await recovered.cancel()
        await server.wait_requests(2)
    assert (service.posts, service.cancelled) == (0, ["resp%2F1"])
    assert lint(await stored(log, run)) == []


@pytest.mark.parametrize("is_between", [False, True])
async def test_a_response_that_a_message_cuts_off_is_cancelled(is_between: bool) -> None:
    """Also where the message was sent between two processes."""
    service = Service(None if is_between else len(CALL) - 4)
    async with ReplayServer(service) as server:
        if is_between:
            run, entries = await whole()
            log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
            await log.send(run, send_command([Message.user("n")], when="now"))
            cut_off = worker_of(log, server.base_url, tools=[look]).recover(run)
        else:
            log = MemoryLog()
            cut_off = worker_of(log, server.base_url, tools=[look]).run("Begin.")
            await begun(cut_off)
            cut_off.send("n", "now")
        service.first = ANSWER
        result = await cut_off
        await server.wait_requests(2 if is_between else 3)
    assert (result.text, service.posts, service.cancelled) == ("".join(TEXT), 2 - is_between, ["resp%2F1"])
    records = await stored(log, cut_off.id)
    assert lint(records) == []
    texts = [m.text for m in fold_run(records).conversation.messages]
    assert texts[-3:] == ["Let" if is_between else "Let me", "n", "".join(TEXT)]
    assert AttemptRetract not in kinds(records)


async def test_a_pause_and_a_message_wait_for_the_end_of_a_continued_response() -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    service = Service()
    async with ReplayServer(service) as server:
        await log.send(run, Command("pause", {"reason": "lunch"}))
        paused = await worker_of(log, server.base_url, tools=[look]).recover(run)
        assert isinstance(paused, Paused)
        assert AttemptRetract not in kinds(await stored(log, run))
        result = await worker_of(log, server.base_url, tools=[look]).resume(paused)
    assert (result.text, service.posts) == ("".join(TEXT), 1)


async def test_a_fallback_continues_the_response_of_its_model() -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    service = Service()
    async with ReplayServer(service) as server:
        one = Client(OpenAIResponses("m", api_key=lambda: "late", base_url=server.base_url), retry=Retry(first=0.0))
        worker = worker_of(log, server.base_url, tools=[look])
        worker = Worker(fallback(one, ScriptedModel([say("no")])), options=worker.options, tools=[look], log=log)
        result = await worker.recover(run)
    assert (result.text, service.posts) == ("".join(TEXT), 1)
    assert "" not in service.keys
    assert AttemptRetract not in kinds(await stored(log, run))


@pytest.mark.parametrize(
    "settings", [{"options": None}, {"stages": {"respond": respond}}], ids=["without background", "a stage of its own"]
)
async def test_other_responses_are_requested_again(settings: Any) -> None:
    run, entries = await whole()
    log = await cut(run, entries[: [entry.kind for entry in entries].index("text_delta") + 1])
    service = Service()
    async with ReplayServer(service) as server:
        result = await worker_of(log, server.base_url, tools=[look], **settings).recover(run)
    assert (result.text, service.posts, service.resumed) == ("".join(TEXT), 2, [])
    after = [k for k in kinds(await stored(log, run)) if k in (RunRecover, AttemptRetract)]
    assert after == [RunRecover, AttemptRetract]


async def test_a_fork_does_not_take_the_response_of_its_run() -> None:
    run, entries = await whole()
    place = [entry.kind for entry in entries].index("text_delta") + 1
    log = await cut(run, entries[:place])
    service = Service()
    async with ReplayServer(service) as server:
        worker = worker_of(log, server.base_url, tools=[look])
        result = await worker.fork(run, place)
    assert (result.text, service.posts, service.resumed) == ("".join(TEXT), 2, [])


async def test_the_start_of_a_response_is_stored_at_once() -> None:
    async with MemoryLog() as log, ReplayServer(Service(stall_after=1)) as server:
        run = worker_of(log, server.base_url, tools=[look]).run("Begin.")
        async for record in run:
            if isinstance(record.event, Status):
                break
        for _ in range(5):  # turns of the loop, and no time
            await asyncio.sleep(0)
        assert kinds(await stored(log, run.id))[-1] is Status
        await run.cancel()
