"""``pytest --agent-stream MODULE:SOURCE``: a test for each rule of a stream, of a source of your own.

See `rxworker.testing.conformance.check` for what a source is. The option may be given several times;
``-k agent-stream`` leaves the other tests out. Without it, nothing of the library is imported.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    words = "test a stream of an agent by the rules of rxworker.testing.conformance"
    parser.getgroup("rxworker").addoption("--agent-stream", action="append", metavar="MODULE:SOURCE", help=words)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add a test for each rule and each source."""
    for name in session.config.getoption("--agent-stream") or ():
        import pkgutil

        from rxworker.state.grammar import Rule

        sys.path[:0] = [str(session.config.invocation_params.dir)]
        try:
            source = pkgutil.resolve_name(name)
        except Exception as error:  # also what the module raises
            raise pytest.UsageError(f"--agent-stream {name}: {error}; give MODULE:SOURCE") from error
        for rule in Rule:
            made: Any = AgentStreamItem
            item: AgentStreamItem = made.from_parent(session, name=f"agent-stream[{name}-{rule}]")
            item.source, item.rule = source, rule
            items.append(item)


class AgentStreamItem(pytest.Item):
    """One rule, tried on one source."""

    source: object
    rule: Any

    def runtest(self) -> None:
        """Try the rule."""
        import asyncio

        from rxworker.testing.conformance import FOREIGN, REASONS, check

        [row] = asyncio.run(check(self.source, rules=(self.rule,))).rows
        if row.reason.endswith(FOREIGN):
            pytest.fail(row.reason, pytrace=False)
        if row.outcome == "not tried":
            pytest.skip(row.reason)
        if row.outcome == "broken":
            pytest.fail(f"{row}\n{REASONS[self.rule]}", pytrace=False)
