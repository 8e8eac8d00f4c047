"""The page folds records as the library does: one in JavaScript, one in Python, over the same records."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

import rxworker.ui.web
from rxworker import Approve, Deny, Run, Worker, after_tool_call, tool, worker_tool
from rxworker.events import BlockStop, Fork, Record, TextDelta, ToolStart, ToolStop, Usage
from rxworker.hooks import Abort, ToolResultContext
from rxworker.hub import Coalesce, Delivery, DropOldest, Reliable
from rxworker.messages import Image, Message, Prices, Text, Thinking, ToolCall, ToolResult
from rxworker.messages.history import estimate
from rxworker.protocols import encode_record
from rxworker.state import RunState, fold_run
from rxworker.testing import Reply, ScriptedModel, call, fail, say, stall, think
from rxworker.tools import ToolContext
from rxworker.ui.describe import outline_json
from rxworker.worker import Compact
from tests.pauses import pause_of

STATIC = Path(rxworker.ui.web.__file__).parent / "static"
NODE = shutil.which("node")
PRICES = Prices(input=3.0, output=15.0, cache_read=0.3, cache_creation=3.75)
USAGE_FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "reasoning_tokens")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

Records = list[Record]


def page_folds(*runs: Sequence[Record]) -> list[dict[str, Any]]:
    """What the page makes of these runs."""
    return page_tells(runs)


def page_tells(runs: Sequence[Sequence[Record]], **more: object) -> Any:
    """What the page makes of these runs: of each, or of all as one."""
    assert NODE is not None
    asked = {
        "static": str(STATIC),
        "runs": [[msgspec.Raw(encode_record(record)) for record in records] for records in runs],
        "prices": PRICES,
        **more,
    }
    done = subprocess.run(
        [NODE, str(Path(__file__).parent / "fold_cli.mjs")],
        input=msgspec.json.encode(asked),
        capture_output=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return msgspec.json.decode(done.stdout)


@tool
async def look(where: str, context: ToolContext) -> str:
    """Look somewhere."""
    context.progress("opens its eyes")
    context.progress({"at": where})
    return f"nothing {where}"


@tool
async def broken() -> str:
    """Fail."""
    raise OSError("the disk is gone")


@tool(requires_approval=True)
async def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


async def watched(run: Run[object], delivery: Delivery | None = None) -> Records:
    """All records of a run, however it ends."""
    records: Records = []
    try:
        async for record in run.watch(delivery or Reliable()):
            records.append(record)
    except Exception:
        pass
    return records


async def plain() -> Run[object]:
    model = ScriptedModel([think("Hm.") + say("Let me look.") + call("look", where="here"), "Nothing."])
    return Worker(model, tools=[look], system="Be brief.").run("Is there anything?")


async def two_at_once() -> Run[object]:
    first = call("look", where="here") + call("broken") + call("unknown", a=1)
    return Worker(ScriptedModel([first, "Well."]), tools=[look, broken]).run("Go")


async def looked_at() -> Run[object]:
    """Results that a hook may change come behind the ends of their calls."""

    @after_tool_call(matcher="look")
    def mask(context: ToolResultContext) -> None:
        context.set_content("masked")

    first = call("look", where="here") + call("broken") + call("look", where="there")
    return Worker(ScriptedModel([first, "Well."]), tools=[look, broken], hooks=[mask]).run("Go")


async def held_back() -> Run[object]:
    @after_tool_call
    def stop(context: ToolResultContext) -> Abort:
        return Abort("no")

    return Worker(ScriptedModel([call("look", where="here")]), tools=[look], hooks=[stop]).run("Go")


async def retracted() -> Run[object]:
    half = think("I try") + say("This goes wr") + fail("Overloaded", "overloaded", retryable=True)
    return Worker(ScriptedModel([half, say("This goes well.")])).run("Go")


async def failed() -> Run[object]:
    return Worker(ScriptedModel([say("Half a sen") + fail("No", "auth")])).run("Go")


async def limited() -> Run[object]:
    from rxworker import Limits

    model = ScriptedModel(lambda _: call("look", where="again"))
    return Worker(model, tools=[look], limits=Limits(max_turns=2)).run("Go")


async def nested() -> Run[object]:
    def make() -> Worker:
        replies = [think("A pond") + call("look", where="pond"), say("An old pond.")]
        return Worker(ScriptedModel(replies), tools=[look])

    write = worker_tool(make, name="write_verse", description="Have a verse written.")
    both = call("write_verse", task="A pond.") + call("write_verse", task="A frog.")
    return Worker(ScriptedModel([both, "Here."]), tools=[write]).run("Verses, please.")


async def shortened() -> Run[object]:
    """Also inside another run; the summary has tokens of its own."""

    def make() -> Worker:
        long = Usage(input_tokens=900, output_tokens=5)
        replies = [replace(call("look", where="here"), usage=long) for _ in range(2)]
        model = ScriptedModel([*replies, "We looked.", "Nothing is there."])
        return Worker(model, tools=[look], compact=Compact(at=100, keep=1))

    search = worker_tool(make, name="search", description="Have something found.")
    replies = [replace(call("search", task="A frog."), usage=Usage(900, 5)) for _ in range(2)]
    model = ScriptedModel([*replies, "We searched.", "No frog."])
    return Worker(model, tools=[search], compact=Compact(at=100, keep=1)).run("A frog, please.")


async def paused() -> Run[object]:
    first = say("May I?") + call("look", where="there") + call("delete", path="a.txt")
    return Worker(ScriptedModel([first]), tools=[look, delete]).run("Tidy up")


async def _resumed(decision: Approve | Deny) -> Run[object]:
    worker = Worker(ScriptedModel([call("delete", path="a.txt"), "Done."]), tools=[delete])
    result = await pause_of(worker.run("Tidy up"))
    return worker.resume(decisions={result.pending[0].id: decision})


async def approved() -> Run[object]:
    return await _resumed(Approve({"path": "b.txt"}))


async def denied() -> Run[object]:
    return await _resumed(Deny("not that one"))


async def cancelled() -> Run[object]:
    reached = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait for ever."""
        reached.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([say("I wait.") + call("wait")])
    run = Worker(model, tools=[wait]).run("Go")
    await reached.wait()
    await run.cancel(reason="enough")
    return run


async def second() -> Run[object]:
    worker = Worker(ScriptedModel([call("look", where="here"), "No.", "Still no."]), tools=[look])
    await worker.run("Anything?")
    return worker.run("And now?")


async def spoken_into() -> Run[object]:
    run = Worker(ScriptedModel([call("look", where="here"), "Aha."]), tools=[look]).run("Go")
    run.send("Hurry up")
    return run


async def cut_off() -> Run[object]:
    """By a message, with a whole call, another that is not, and a pure tool that has run early."""

    @tool(effect="pure")
    def early() -> str:
        """Look."""
        return "seen"

    first = think("Hm.") + say("Well") + call("early") + call("look", where="here") + call("broken") + stall()
    run = Worker(ScriptedModel([first, "Aha."]), tools=[early, look, broken]).run("Go")

    def stop(record: Record) -> None:
        if isinstance(record.event, ToolStop):
            run.send("Stop", "now")

    run.subscribe(stop, lambda _: None)
    return run


async def in_background() -> Run[object]:
    @tool(background=True)
    async def slow(context: ToolContext) -> str:
        """Take a while."""
        await asyncio.sleep(0)
        context.progress("half")
        await asyncio.sleep(0.01)
        return "slow"

    return Worker(
        ScriptedModel([call("slow") + call("look", where="here"), "I wait.", "Now."]), tools=[slow, look]
    ).run("Go")


async def in_background_of_a_paused_run() -> Run[object]:
    @tool(at_end="wake")
    async def order(context: ToolContext) -> str:
        """Order."""
        context.later()

    worker = Worker(ScriptedModel([call("order"), "It is ordered.", "It is here."]), tools=[order])
    run = worker.run("Go")
    await run
    run.deliver("call_1_1", "a parcel")
    return worker.resume()


async def odd_text() -> Run[object]:
    text = "<img src=x onerror=alert(1)>\n\u2028 \U0001f600 \x00 e\u0301 </script>"
    return Worker(ScriptedModel([say(text, chunk=1)])).run("<b>Go</b>")


RUNS: list[Callable[[], Awaitable[Run[object]]]] = [
    plain, two_at_once, looked_at, held_back, retracted, failed, limited, nested, shortened, paused, approved, denied,
    cancelled, second, spoken_into, cut_off, in_background, in_background_of_a_paused_run, odd_text,
]  # fmt: skip


def texts_of(messages: Sequence[Message], role: str) -> list[str]:
    """The texts that somebody of this role says, in order."""
    blocks = [b for m in messages if m.role == role for b in m.content if isinstance(b, Text)]
    return [block.text for block in blocks]


def calls_of(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """The calls, in order."""
    return [(b.id, b.name) for m in messages for b in m.content if isinstance(b, ToolCall)]


def results_of(messages: Sequence[Message]) -> dict[str, str]:
    """What the calls came to."""
    results = [b for m in messages for b in m.content if isinstance(b, ToolResult)]
    return {result.tool_use_id: result.text for result in results}


def check(page: dict[str, Any], state: RunState) -> None:
    """The page has come to the same as the library."""
    assert page["seq"] == state.seq
    assert (page["status"], page["turns"], page["attempts"]) == (state.status, state.turns, state.attempts)
    assert (page["toolCalls"], page["innerToolCalls"]) == (state.tool_calls, state.inner.tool_calls)
    assert page["pending"] == [call.id for call in (state.pause.pending if state.pause else ())]
    assert {name: page["usage"][name] for name in USAGE_FIELDS} == usage_fields(state.usage)
    messages = state.conversation.messages
    items = [item for item in page["items"] if not item.get("retracted")]
    said = [item["text"] for item in items if item["kind"] == "message" and item["role"] == "user"]
    assert said == texts_of(messages, "user")
    answers = [i["text"] for i in items if i["kind"] == "text" and i["text"]]
    assert answers == texts_of(messages, "assistant")
    # The page shows a call that was not whole, which is not sent again.
    calls = [item for item in items if item["kind"] == "call" and item["state"] != "cut"]
    assert [(item["id"], item["name"]) for item in calls] == calls_of(messages)
    results = results_of(messages)
    for item in calls:
        if item["result"] is not None:
            assert item["result"] == results[item["id"]]


def usage_fields(usage: Usage) -> dict[str, int | None]:
    """The numbers of a usage."""
    return {name: getattr(usage, name) for name in USAGE_FIELDS}


async def test_the_page_comes_to_the_same_as_the_library() -> None:
    runs = [await make() for make in RUNS]
    told = [(await watched(run), await watched(run, Coalesce())) for run in runs]
    pages = iter(page_folds(*(records for both in told for records in both)))
    for make, run, first, second in zip(RUNS, runs, pages, pages, strict=True):
        check(first, run.state)
        check(second, run.state)
        assert first["items"] == second["items"], make
        assert first["inner"] == second["inner"], make


TIERED = Prices(2.0, 12.0, 0.2, 2.5, cache_creation_1h=4.0, above=200_000, long=Prices(4.0, 18.0, 0.4))


@pytest.mark.parametrize("prices", [PRICES, Prices(input=3.0, output=15.0), TIERED])
@pytest.mark.parametrize("sizes", [(900, 900), (190_000, 190_000), (90_000, 250_000)], ids=str)
async def test_the_page_comes_to_the_same_cost_as_the_library(prices: Prices, sizes: tuple[int, int]) -> None:
    first, used = (Usage(size, 70, 300, 200, cache_creation_1h_tokens=150, raw={}) for size in sizes)
    model = ScriptedModel([call("look", where="here") + Reply(usage=first), say("No.") + Reply(usage=used)])
    run = Worker(model, tools=[look]).run("Go")
    every = await watched(run)
    (page,) = page_tells([every], prices=prices)
    assert page["cost"] == pytest.approx(prices.cost(run.state.usage))
    assert page["cost"] > 0.001


async def test_a_resumed_run_and_the_one_before_it_lie_on_one_axis() -> None:
    first = [say("May I?") + call("look", where="there"), call("delete", path="a.txt"), "Done."]
    worker = Worker(ScriptedModel(first), tools=[look, delete])
    before = worker.run("Tidy up")
    paused = await pause_of(before)
    after = worker.resume(decisions={paused.pending[0].id: Approve()})
    await after
    records = [await watched(before), await watched(after)]
    shifted = [replace(record, time=record.time + 60.0) for record in records[1]]
    told = page_tells([records[0], shifted], course=True)
    took = [part[-1].time - part[0].time for part in (records[0], shifted)]
    # The pause is told, and takes no room.
    (pause,) = told["breaks"]
    assert pause["at"] == pytest.approx(took[0], abs=1e-4)
    assert pause["seconds"] == pytest.approx(shifted[0].time - records[0][-1].time, abs=1e-4)
    assert "requires approval" in pause["reason"]
    assert told["elapsed"] == pytest.approx(sum(took), abs=1e-4)
    assert told["cost"] == pytest.approx(PRICES.cost(after.state.usage))
    # What was before the pause has its place in the conversation behind it, and is known as well as before.
    twins = [twin.get("text") or twin["name"] for twin in told["twins"][0]]
    assert twins == ["May I?", "look", "delete"]
    assert told["seconds"][0] is not None


async def test_any_part_of_the_records_comes_to_the_same_as_in_the_library() -> None:
    run = await plain()
    every = await watched(run)
    parts = [every[:n] for n in range(1, len(every) + 1)]
    for page, part in zip(page_folds(*parts), parts, strict=True):
        state = fold_run(part)
        usage = {name: page["usage"][name] for name in USAGE_FIELDS}
        assert usage == usage_fields(state.usage)
        assert (page["seq"], page["status"], page["turns"]) == (state.seq, state.status, state.turns)


async def test_records_that_were_seen_already_change_nothing() -> None:
    every = await watched(await plain())
    once, doubled = page_folds(every, [*every[:9], *every[4:]])
    assert once == doubled


async def test_a_retracted_attempt_is_marked_and_its_text_comes_again() -> None:
    (page,) = page_folds(await watched(await retracted()))
    texts = [(item["text"], item["retracted"]) for item in page["items"] if item["kind"] == "text"]
    assert texts == [("This goes wr", True), ("This goes well.", False)]
    # What went wrong and what it led to are told as one.
    assert page["notes"] == ["Retracted"]


async def test_nothing_stays_open_when_a_run_has_ended() -> None:
    runs = [await watched(await make()) for make in (failed, cancelled, limited, retracted)]
    assert [page["open"] for page in page_folds(*runs)] == [0, 0, 0, 0]


async def test_runs_inside_a_run_stand_below_the_call_that_began_them() -> None:
    (page,) = page_folds(await watched(await nested()))
    outer = [item["id"] for item in page["items"] if item["kind"] == "call"]
    assert [scope["path"] for scope in page["inner"]] == [[call_id] for call_id in outer]
    for scope in page["inner"]:
        kinds = [item["kind"] for item in scope["items"]]
        assert kinds == ["message", "thinking", "call", "text"]


async def test_a_call_that_ended_before_the_pause_has_ended_in_the_run_that_resumes() -> None:
    inner = Worker(ScriptedModel([call("delete", path="a.txt"), say("It is gone.")]), tools=[delete])
    ask = worker_tool(inner, name="ask", description="Ask.")
    replies = [call("ask", task="Go.") + call("look", where="there") + call("broken"), say("Done.")]
    worker = Worker(ScriptedModel(replies), tools=[ask, look, broken])
    paused_run = worker.run("Go.")
    before = [record async for record in paused_run]
    after = [record async for record in worker.resume(decisions={"call_1_1/call_1_1": Approve()})]
    assert page_tells([before, after], course=True)["states"] == ["done", "done", "failed"]


async def test_a_gap_is_reported_and_counted() -> None:
    run = Worker(ScriptedModel([say("word " * 200)])).run("Go")
    await run
    records: Records = []
    async for record in run.watch(DropOldest(limit=20)):
        records.append(record)
    (page,) = page_folds(records)
    assert page["seq"] == run.last_seq
    assert page["missing"] == 0


def test_the_fold_distinguishes_what_differs() -> None:
    reply: Reply = say("Hello")
    assert reply.text == "Hello"
    records = [Record(1, "r", 1, 1, 0.0, TextDelta(0, "Hel"))]
    longer = [*records, Record(2, "r", 1, 1, 0.0, TextDelta(0, "lo"))]
    one, two = page_folds(records, longer)
    assert one["items"] != two["items"]


async def test_the_page_estimates_tokens_as_the_library_does() -> None:
    assert NODE is not None
    messages = [
        Message.user("Hello, world"),
        Message.user("池塘 🐸 é"),
        Message("user", (Text("a"), Image(data="aGVsbG8=", media_type="image/png"))),
        Message("assistant", (Thinking("Hm."), ToolCall("1", "look", {"path": "a.txt", "n": 3}))),
        Message("user", (ToolResult("1", "It is empty."),)),
        Message("user", (ToolResult("1", (Text("It is"), Text("not."))),)),
    ]
    script = (
        f"import {{ estimate }} from 'file://{STATIC / 'model' / 'estimate.js'}';"
        f"console.log(JSON.stringify({msgspec.json.encode(messages).decode()}.map(estimate)))"
    )
    done = await asyncio.to_thread(
        subprocess.run, [NODE, "--input-type=module", "-e", script], capture_output=True, check=True
    )
    assert msgspec.json.decode(done.stdout) == [estimate(message) for message in messages]


async def test_tokens_that_no_provider_has_reported_are_estimated_and_then_replaced() -> None:
    run = Worker(ScriptedModel([say("An old silent pond. " * 20)])).run("A haiku!")
    records = await watched(run)
    open_at = next(n for n, one in enumerate(records) if isinstance(one.event, BlockStop))
    half, whole = page_folds(records[:open_at], records)
    assert half["totals"]["isEstimate"]
    assert half["totals"]["usage"]["output_tokens"] == 100
    assert half["totals"]["usage"]["input_tokens"] == estimate(Message.user("A haiku!"))
    assert whole["totals"] == {"usage": whole["usage"], "isEstimate": False}


def test_results_are_summed_up_as_in_the_terminal() -> None:
    texts = [
        '[{"a": 1, "b": "x"}, {"a": 2, "c": null}]', '[{"a": 1}, {"a": {"b": 1}}]', "[[1, 2], [3]]",
        json.dumps([{f"c{n}": n for n in range(41)}]), '{"a": 12, "b": [], "{rows}": 0.10}', '{"one": {}}',
        ' [{"name\\u0000": 1}]', "{}", "[]", '"text"', '{"a": 1', "[" * 50_000, json.dumps(["x" * 100_000]), "rain",
    ]  # fmt: skip
    script = (
        "const { outlineOf } = await import(process.argv[1]);"
        'const texts = JSON.parse((await import("node:fs")).readFileSync(0, "utf8"));'
        'console.log(JSON.stringify(texts.map((text) => outlineOf(text) ?? "")));'
    )
    assert NODE is not None
    found = subprocess.run(
        [NODE, "--input-type=module", "-e", script, (STATIC / "model/recognise.js").as_uri()],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout) == [outline_json(text) for text in texts]
    assert outline_json(texts[0]) == "2 rows \N{MULTIPLICATION SIGN} 3 columns: a, b, c"


@pytest.mark.parametrize(
    ("status", "seq", "queued", "is_received"),
    [
        ("running", 9, 5, True),
        ("finished", 9, 5, True),
        ("aborted", 9, 5, True),
        ("aborted", 5, 5, False),
        ("finished", 9, 9, False),  # it has been received and is not folded yet
        ("finished", 9, 8, True),
    ],
)
def test_a_run_is_received_again_after_its_end_if_it_has_further_records(
    status: str, seq: int, queued: int, is_received: bool
) -> None:
    """The list of runs is sent at a limited rate, so that it may show the run only at its next end."""
    script = (
        "const { Selection } = await import(process.argv[1]), { Store } = await import(process.argv[2]);"
        "const [status, seq, queued] = JSON.parse(process.argv[3]), watched = [], store = new Store();"
        'const run = Object.assign(store.look("run-1"), { seq: 5, status: "aborted" });'
        'store.setRuns([{ id: "run-1", status, seq }]);'
        'store.add("run-1", [{ seq: queued, time: 0 }]);'
        'store.end("run-1");'
        "const selection = new Selection(store, { watch: (id, after) => watched.push([id, after()]) });"
        "selection.timeline = { runs: [run] };"
        "selection.revive();"
        "console.log(JSON.stringify(watched));"
    )
    assert NODE is not None
    files = [(STATIC / "model" / name).as_uri() for name in ("timeline.js", "store.js")]
    found = subprocess.run(
        [NODE, "--input-type=module", "-e", script, *files, json.dumps([status, seq, queued])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(found.stdout) == ([["run-1", queued]] if is_received else [])


async def test_the_time_until_a_run_was_forked_is_none_of_its_time() -> None:
    """Twice: a fork of a fork, of which the second was made a day later."""
    records = await watched(await plain())
    begun = next(n for n, record in enumerate(records) if isinstance(record.event, ToolStart))
    apart = [replace(record, time=1000.0 + n) for n, record in enumerate(records)]
    forked, later = list[Record](), 0.0
    for record in apart:
        at = record.seq - 1
        if at in (begun, begun + 2):
            later += 180.0 if at == begun else 86_400.0
            seq = len(forked) + 1
            event = Fork("run-1", seq - 1)
            forked.append(replace(forked[-1], seq=seq, time=record.time + later, event=event))
        forked.append(replace(record, seq=len(forked) + 1, time=record.time + later))
    whole, parts = page_tells([apart], course=True), page_tells([forked], course=True)
    # The record of the fork itself has the time of the one after it.
    assert parts["elapsed"] == pytest.approx(whole["elapsed"] - 2)
