"""The tables of the page about hosts.

What a row has to type is sent to the address that it names, with the key of its variable.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rxworker import providers
from rxworker.messages import Conversation
from rxworker.providers import Options, Provider
from rxworker.providers.openai_chat.dialects import DIALECTS
from rxworker.providers.takes import listed

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hosts.md"
ROWS = [
    [cell.strip().strip("`") for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and "(" in line
]
KEY = "key-0123456789"


@pytest.mark.parametrize(("typed", "variable", "url"), [row[1:] for row in ROWS], ids=[row[1] for row in ROWS])
def test_what_a_row_types_is_sent_to_its_address_with_its_key(
    typed: str, variable: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if variable.isupper():
        monkeypatch.setenv(variable, KEY)
    provider: Provider = eval(typed, {**vars(providers), **PROVIDERS, "token": KEY})
    request = provider.request(Conversation(), (), Options())
    assert request.url == url
    assert (KEY in "".join(request.headers.values())) is (variable != "none")


PROVIDERS = {name: getattr(providers, name) for name in providers.__all__}


def rule_rows() -> list[str]:
    """The table of what hosts refuse, as their rows in the library have it."""
    hosts: dict[str, list[str]] = {}
    for host, dialect in DIALECTS.items():
        beside = "" if dialect.schemas_beside_tools else ", beside tools as a text"
        cells = (
            f"`{dialect.limit}`",
            ", ".join(f"`{name}`" for name in dialect.echoes) or "none",
            ("a schema" if dialect.has_schemas else "JSON, and the schema as a text") + beside,
            listed(dialect.documents),
        )
        hosts.setdefault(" | ".join(cells), []).append(f"`{host}`")
    return [f"| {', '.join(names)} | {cells} |" for cells, names in hosts.items()]


def test_the_rules_of_hosts_are_those_of_the_library() -> None:
    page = PAGE.read_text().splitlines()
    start = page.index("### What they refuse")
    table = [line for line in page[start : page.index("", start + 5)] if line.startswith("| `")]
    assert table == rule_rows()
    assert [host for host, dialect in DIALECTS.items() if dialect.after_results] == ["mistral.ai"]
