"""The page's fold in JavaScript shows the same blocks and calls as `RunView`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rxworker import Worker, tool, worker_tool
from rxworker.errors import RxWorkerError
from rxworker.events import AttemptStart, Event, Record, RunStart, TurnStart
from rxworker.hub import Coalesce, Delivery, Reliable
from rxworker.messages import Conversation, Message
from rxworker.providers import PROVIDERS
from rxworker.testing import Reply, ScriptedModel, call, cut, fail, say, think
from rxworker.transport import Retry
from rxworker.views import BlockView, CallView, RunView
from tests.ui.browser.test_fold import NODE, broken, delete, page_tells

RECORDINGS = Path(__file__).parents[4] / "shared" / "recordings"
pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed")

Item = dict[str, Any]
Shown = list[tuple[list[str], list[Item]]]
"""The items by the path of the run that they belong to."""

PHASES = {"open": "open", "stopped": "done", "aborted": "stopped"}
STATES = {
    "writing": "open",
    "waiting": "waiting",
    "paused": "waiting",
    "running": "running",
    "done": "done",
    "provider": "done",
    "failed": "failed",
    "skipped": "refused",
    "not run": "refused",
    "stopped": "stopped",
    "cut": "stopped",
}
"""The page's names for the phases of blocks and the states of calls, and those of the views."""


def page_shows(runs: Sequence[Sequence[Record]]) -> list[Shown]:
    """The items that the page makes of each of these runs."""
    shown = msgspec.convert(page_tells(runs, shown=True), list[Shown])
    for scopes in shown:
        for _, items in scopes:
            for item in items:
                names = PHASES if item["id"] is None else STATES
                item["state"] = "retracted" if item["retracted"] else names[item["state"]]
    return shown


def view_shows(records: Sequence[Record]) -> Shown:
    """The items of a `RunView` in the page's form."""
    view = RunView()
    for record in records:
        view.step(record)
    items: dict[tuple[str, ...], list[Item]] = {}
    for item in view.items:
        if isinstance(item, BlockView):
            items.setdefault(item.scope.path, []).append(view_item(item))
    return [(list(path), each) for path, each in items.items()]


def view_item(item: BlockView) -> Item:
    is_call = isinstance(item, CallView)
    return {
        "type": item.block.block_type.value,
        "text": None if is_call and item.values else item.text,
        "choice": item.block.choice,
        "retracted": item.stage == "retracted",
        "id": item.block.call_id if is_call else None,
        "name": item.block.tool if is_call else None,
        "state": item.stage,
        "result": item.result.text if is_call and item.result is not None else None,
    }


def response(file: Path) -> list[Record]:
    """The records of a run with this recorded response."""
    decoder = PROVIDERS[file.parent.name]("a-model").decoder()
    events: list[Event] = [
        RunStart(Conversation((Message.user("Hi"),))), TurnStart(), AttemptStart(),
    ]  # fmt: skip
    events += [*decoder.feed(file.read_bytes()), *decoder.finish()]
    return [Record(seq, "run-1", 1, 1, 0.0, event) for seq, event in enumerate(events, start=1)]


def compare(runs: Sequence[Sequence[Record]], names: Sequence[str]) -> None:
    for name, page, records in zip(names, page_shows(runs), runs, strict=True):
        # A run inside the run that has shown nothing yet is a scope on the page alone.
        assert [scope for scope in page if scope[1]] == view_shows(records), name


@pytest.mark.parametrize("provider", sorted(PROVIDERS))
def test_the_page_shows_every_recorded_response_as_the_views_do(provider: str) -> None:
    files = [p for p in sorted((RECORDINGS / provider).glob("*")) if p.suffix in (".sse", ".ndjson")]
    compare([response(file) for file in files], [file.name for file in files])


@tool
async def look(where: str) -> str:
    """Look somewhere."""
    return f"nothing {where}"


def verse() -> Worker:
    replies = [think("A pond") + call("look", where="pond"), say("An old pond.")]
    return Worker(ScriptedModel(replies), tools=[look])


write_verse = worker_tool(verse, name="write_verse", description="Have a verse written.")
REPLIES = [
    say("Hello, who is there?"),
    think("Where to look? Here.") + say("I look.") + call("look", where="here"),
    call("look", where="here") + call("look", where="there"),
    call("broken") + say("Oh.") + call("unknown", a=1),
    say("Once upon a") + cut(),
    say("Once upon a time") + fail("overloaded", retryable=True),
    say("Half a sen") + fail("No", "auth"),
    call("write_verse", task="A pond.") + call("look", where="here"),
    say("May I?") + call("look", where="there") + call("delete", path="a.txt"),
]


async def records_of(script: Sequence[Reply], delivery: Delivery) -> list[Record]:
    """The records of a run with these replies, however it ends."""
    tools = [look, broken, delete, write_verse]
    retry = Retry(retries=2, first=0.0)
    run = Worker(ScriptedModel([*script, say("That is all.")]), tools=tools, response_retry=retry).run("Go.")
    records: list[Record] = []
    try:
        async for record in run.watch(delivery):
            records.append(record)
    except RxWorkerError:
        pass
    return records


@pytest.mark.parametrize("delivery", [Reliable(), Coalesce()], ids=["single", "merged"])
async def test_the_page_shows_any_run_and_any_part_of_it_as_the_views_do(delivery: Delivery) -> None:
    runs: list[list[Record]] = []
    names: list[str] = []
    for seed in range(40):
        pick = random.Random(seed)
        script = [pick.choice(REPLIES) for _ in range(pick.randint(1, 4))]
        records = await records_of(script, delivery)
        cuts = [len(records), *(pick.randint(1, len(records)) for _ in range(5))]
        runs += [records[:at] for at in cuts]
        names += [f"seed {seed}, the first {at} records" for at in cuts]
    compare(runs, names)
