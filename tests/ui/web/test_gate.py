"""``Settings(gate=)``: what clients send passes the gate before a run has it, by every interface."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rxworker.operators import hold_back
from rxworker.ui.web import Settings

from .conftest import BODIES

if TYPE_CHECKING:
    from .conftest import OpenDesk

SECRET = "hunter2"
DOORS = [path for path, body in BODIES.items() if '"x"' in json.dumps(body)]


def body_of(path: str, text: str, run: dict[str, str]) -> bytes:
    """A body, in which the text has an escape."""
    body = json.dumps(BODIES[path]).replace('"x"', '"' + "\\u0068" + text[1:] + '"')
    return body.replace("CONVERSATION", run["conversation"]).replace("RUN", run["id"]).encode()


@pytest.mark.parametrize("path", DOORS)
async def test_no_interface_takes_what_a_check_refuses(open_desk: OpenDesk, path: str) -> None:
    asked: list[str] = []

    async def is_clean(text: str) -> bool:
        asked.append(text)
        return SECRET not in text

    desk = await open_desk("Hello.", "Hello.", settings=Settings(gate=hold_back(is_clean)))
    run = await desk.begin("hi")
    await desk.ended(run["id"])
    headers, address = {"Content-Type": "application/json"}, desk.url(path.removeprefix("/").format(id=run["id"]))
    async with desk.http.post(address, data=body_of(path, SECRET, run), headers=headers) as response:
        answer = await response.text()
    assert response.status == 400, answer
    assert "not accepted" in answer
    _, listed = await desk.get("api/runs")
    assert [one["id"] for one in listed["runs"]] == [run["id"]]
    assert SECRET in "".join(asked)
    before = len(asked)
    async with desk.http.post(address, data=body_of(path, "harmless", run), headers=headers) as response:
        await response.read()
    assert len(asked) == before + 1 or path in ("/ag-ui", "/api/chat"), asked[before:]  # of what has passed, nothing
