import re

import pytest

from rxworker import Worker
from rxworker.cli import main
from rxworker.cli.demo import Views, account_of, watch_text, watch_timeline, watch_usage
from rxworker.testing import ScriptedModel, call, say, think
from rxworker.views import RunView

ACCOUNT = """\
Kyoto or Lisbon this weekend, and what do I pack?
turn 1
  thinking  Two cities, two forecasts. Neither needs the other, so I request both at once.
  text      Let me look at both forecasts.
  calls     forecast(city="Kyoto", days=2)
  calls     forecast(city="Lisbon", days=2)
  receives  forecast: 11 C, rain on both days (next 2 days)
  receives  forecast: 19 C, dry, a light wind (next 2 days)
turn 2
  thinking  Kyoto is wet and cool. Lisbon is dry and mild.
  text      Go to Lisbon: 19 degrees and dry on both days"""


def test_where_nothing_can_be_drawn_it_is_the_same_plain_account_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[str] = []
    for _ in range(2):
        assert main(["demo", "--fast"]) == 0
        told.append(re.sub(r"\d+\.\d s", "0.0 s", capsys.readouterr().out))
    assert told[0] == told[1]
    assert told[0].startswith(ACCOUNT)
    assert "One run: 2 turns, 2 tool calls, 1,247 tokens, 0.0 s; 3 watchers" in told[0]
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
    assert set(views.seen.values()) == {run.state.seq}


async def test_the_plain_account_reports_failed_calls_in_clean_lines() -> None:
    run = Worker(ScriptedModel([call("nothing", x="\x1b[31m"), say("Oh.")])).run("Hi")
    view = RunView()
    lines = [line async for record in run for line in account_of(view.step(record))]
    assert any("receives" in line and "failed:" in line for line in lines)
    assert "\x1b" not in "".join(lines)
