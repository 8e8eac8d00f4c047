"""The lists and the table of the page about hosts.

What an entry has to type is sent to the address that it names, with the key of its variable.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rxworker import providers
from rxworker.messages import Conversation
from rxworker.providers import Options, Provider
from rxworker.providers.openai_chat.dialects import DIALECTS
from rxworker.providers.takes import listed

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "hosts.md"
ROWS = re.findall(r"^- .+?: `(.+?\(.+?\))`, (`\w+`|no key|a token), `(http.+)`$", PAGE.read_text("utf-8"), re.MULTILINE)
KEY = "key-0123456789"


def test_each_list_of_hosts_is_read() -> None:
    urls = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if re.match(r"- .+: `\w+\(.*`http", line)]
    assert len(urls) == len(ROWS) > 40


@pytest.mark.parametrize(("typed", "variable", "url"), ROWS, ids=[row[0] for row in ROWS])
def test_what_an_entry_types_is_sent_to_its_address_with_its_key(
    typed: str, variable: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    if variable.startswith("`"):
        monkeypatch.setenv(variable.strip("`"), KEY)
    provider: Provider = eval(typed, {**vars(providers), **PROVIDERS, "token": KEY})
    request = provider.request(Conversation(), (), Options())
    assert request.url == url
    assert (KEY in "".join(request.headers.values())) is (variable != "no key")


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
