"""The programs that try the rules of a stream on the own events of peers still run with the newest versions."""

from __future__ import annotations

import pytest

from rxworker.testing.conformance import Rule
from tests.docs.test_comparison import command
from tests.tap import peers
from tests.whole import IS_WHOLE


@pytest.mark.timeout(peers.PATIENCE + 300)
@pytest.mark.parametrize("name", [name for name in peers.PEERS if name in command.RULED])
def test_the_report_has_an_outcome_for_each_rule(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not IS_WHOLE:
        monkeypatch.setattr(command, "RULES", {"tools": command.RULES["tools"]})
    _, rows = command.rules(peers.python_of(name), name)
    assert len(rows) == (len(Rule) if IS_WHOLE else 5)
    assert {rows[rule][0] for rule in (Rule.BLOCKS_END, Rule.NOTHING_AFTER_END, Rule.CALLS_END)} == {"kept"}
