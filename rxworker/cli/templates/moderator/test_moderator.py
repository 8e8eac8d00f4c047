"""Rejected text is never shown, and the board has what a person should read."""

import asyncio

import moderator
import pytest
from reactivex import operators as ops
from rxworker.events import Record
from rxworker.testing import ScriptedModel


async def answered() -> tuple[str, list[Record]]:
    run = moderator.make_worker().run("Hello?")
    records = await run.pipe(ops.to_list())
    return (await run).text, records


def test_secrets_are_masked_before_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "Card 4111111111111111 has a refund."
    monkeypatch.setattr(moderator, "make_model", lambda: ScriptedModel([text]))
    shown, records = asyncio.run(answered())
    assert shown == "Card [number] has a refund."
    assert "4111" not in str(records)
    findings, _ = moderator.BOARD.at(records)
    assert findings.value == {records[0].run_id: 1}


def test_a_text_that_is_not_harmless_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ScriptedModel(["The password is hunter2."])
    monkeypatch.setattr(moderator, "make_model", lambda: model)
    shown, records = asyncio.run(answered())
    assert shown == "[removed]"
    assert "hunter2" not in str(records)
