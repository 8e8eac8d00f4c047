import re

import pytest

from rxworker import Worker
from rxworker.cli import main
from rxworker.cli.demo import Views, watch_text, watch_timeline, watch_usage
from rxworker.testing import ScriptedModel, say, think

ACCOUNT = [
    "Two cities, two forecasts. Neither needs the other, so I request both at once.",
    "Let me look at both forecasts.",
    '  -> forecast(city="Lisbon", days=2)',
    "  <- forecast: 19 C, dry, a light wind (next 2 days) (0.0 s)",
    "Kyoto is wet and cool. Lisbon is dry and mild.",
    "One run: 2 turns, 2 tool calls, 1,247 tokens, 0.0 s; 3 watchers",
]


def test_where_nothing_can_be_drawn_it_is_the_same_plain_account_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    for _ in range(2):
        assert main(["demo", "--fast"]) == 0
        told.append(re.sub(r"\d+(\.\d s| ms)", "0.0 s", capsys.readouterr().out))
    lines = told[0].splitlines()
    assert sorted(lines) == sorted(told[1].splitlines())  # the tools run side by side
    assert lines[0] == "Kyoto or Lisbon this weekend, and what do I pack?"
    assert [line for line in lines if line in ACCOUNT] == ACCOUNT
    assert "  .. queries station 4 of 4" in lines
    assert "rxworker chat --provider" in told[0]
    assert "\x1b" not in told[0]


def test_the_demo_needs_neither_key_nor_network(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://192.0.2.1:9")
    monkeypatch.setenv("HTTP_PROXY", "http://192.0.2.1:9")
    assert main(["demo", "--fast"]) == 0
    assert "3 watchers" in capsys.readouterr().out


async def test_three_watchers_see_one_run() -> None:
    views = Views()
    run = Worker(ScriptedModel([think("Hm") + say("Hello")])).run("Hi")
    watch_text(run, views)
    watch_usage(run, views)
    await watch_timeline(run, views)
    result = await run
    assert [block.text for block in views.text.blocks()] == ["Hm", "Hello"]
    assert [block.stage for block in views.timeline.blocks()] == ["done", "done"]
    assert views.usage.state.usage == result.usage
    assert {view.state.seq for view in (views.text, views.timeline, views.usage)} == {run.state.seq}
