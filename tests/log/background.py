"""A service whose responses go on without their connection, and a process that uses it, forked for each life.

The process runs and recovers with the service.

The process reads one JSON line for each request, and answers with the process id of the life and, when that has ended,
with its exit status.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from rxworker import Worker
from rxworker.errors import LeaseHeldError
from rxworker.log import EventLog, open_log
from rxworker.messages import Json, JsonObject
from rxworker.providers import OpenAIResponses, Options
from rxworker.transport import Client, Retry

LEASE = 0.3
BACKGROUND = Options(extra={"background": True})
THOUGHT = ["First", " the", " frog,", " then", " the", " pond."]
TEXT = ["An", " old", " pönd.", "\n", "A", " frog", " leaps", " in:", " ", "wäter", " sound."]


def frames_of(items: Sequence[tuple[JsonObject, Sequence[JsonObject]]], name: str) -> list[bytes]:
    """The frames of a response: each item with its deltas.

    Args:
        items: The items, complete, each with the events between its start and its end.
        name: The id of the response.
    """
    head: JsonObject = {"id": name, "model": "m-1", "status": "in_progress", "output": []}
    events: list[JsonObject] = [
        {"type": "response.created", "response": head},
        {"type": "response.in_progress", "response": head},
    ]
    for place, (item, deltas) in enumerate(items):
        empty: JsonObject = {key: part for key, part in item.items() if not isinstance(part, list)}
        empty = empty | ({"arguments": ""} if "arguments" in item else {})
        events.append({"type": "response.output_item.added", "output_index": place, "item": empty})
        events += [{**delta, "output_index": place} for delta in deltas]
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    output: list[Json] = [item for item, _ in items]
    usage: JsonObject = {"input_tokens": 5, "output_tokens": 17, "total_tokens": 22}
    done: JsonObject = {**head, "status": "completed", "output": output, "usage": usage}
    events.append({"type": "response.completed", "response": done})
    return [
        b"event: %b\ndata: %b\n\n"
        % (str(event["type"]).encode(), msgspec.json.encode({**event, "sequence_number": number}))
        for number, event in enumerate(events)
    ]


def thought(pieces: Sequence[str] = THOUGHT) -> tuple[JsonObject, list[JsonObject]]:
    """An item of reasoning."""
    part: JsonObject = {"type": "summary_text", "text": "".join(pieces)}
    item: JsonObject = {"type": "reasoning", "id": "rs_1", "summary": [part]}
    kind = "response.reasoning_summary_text.delta"
    return item, [{"type": kind, "summary_index": 0, "delta": piece} for piece in pieces]


def message(pieces: Sequence[str] = TEXT) -> tuple[JsonObject, list[JsonObject]]:
    """An item of text."""
    part: JsonObject = {"type": "output_text", "text": "".join(pieces), "annotations": []}
    item: JsonObject = {"type": "message", "id": "msg", "role": "assistant", "content": [part]}
    kind = "response.output_text.delta"
    return item, [{"type": kind, "content_index": 0, "delta": piece} for piece in pieces]


def called(tool: str, pieces: Sequence[str]) -> tuple[JsonObject, list[JsonObject]]:
    """An item that calls a tool."""
    item: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": tool}
    kind = "response.function_call_arguments.delta"
    deltas: list[JsonObject] = [{"type": kind, "delta": piece} for piece in pieces]
    return {**item, "arguments": "".join(pieces)}, deltas


def worker_of(log: EventLog | None, url: str, **options: Any) -> Worker:
    """A worker whose responses go on at the service."""
    model = Client(OpenAIResponses("m", api_key="k", base_url=url), retry=Retry(first=0.0))
    settings: dict[str, Any] = {"options": BACKGROUND, **options}
    return Worker(model, log=log, **settings)


async def life(address: str, url: str, run: str) -> None:
    """Begin a run, or continue it."""
    async with open_log(address, lease=LEASE) as log:
        worker = worker_of(log, url)
        while True:
            try:
                await (worker.recover(run) if run else worker.run("A haiku, please."))
            except LeaseHeldError:
                await asyncio.sleep(LEASE / 10)
            else:
                return


def main() -> None:
    """Fork a process for each line."""
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                asyncio.run(asyncio.wait_for(life(asked["address"], asked["url"], asked["run"]), 60))
                status = 0
            except BaseException as error:
                Path(asked["error"]).write_text("".join(traceback.format_exception(error)))
            finally:
                os._exit(status)
        print(child, flush=True)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
