"""``rxworker providers check``: what the tables have of a model and its service."""

from __future__ import annotations

import json

import pytest

from rxworker.cli.main import main


def checked(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = main(["providers", "check", *argv])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_a_model_is_shown_with_what_its_requests_must_keep_to(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = checked(capsys, "claude-haiku-4-5")
    assert code == 0
    assert text.startswith("claude-haiku-4-5 by anthropic at api.anthropic.com, by the tables of 2026-")
    assert "1 in, 5 out, 0.1 from the cache, USD for a million tokens" in text
    assert "temperature or top_p, not both" in text
    assert "a budget from 1,024 tokens" in text


@pytest.mark.parametrize(
    ("argv", "rules"),
    [
        (
            ("mistral-large-2512", "--base-url", "https://api.mistral.ai"),
            {
                "documents beside text": "pdf, docx, pptx, odt, rtf and epub",
                "after results": "an answer, 'Understood.', before a message of the user's",
            },
        ),
        (("kimi-k2.6", "--base-url", "https://api.moonshot.ai"), {"forced calls": "only when it does not think"}),
        (("qwen3", "--provider", "ollama"), {"a schema": "not known; beside tools the model reads it"}),
        (("gpt-5.1",), {"provider": "openai_responses", "service": "api.openai.com"}),
        (("gemini-3.8-flash",), {"names of tools": "[a-zA-Z_][a-zA-Z0-9_-]{0,63}"}),
    ],
)
def test_the_rules_are_those_of_the_service(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], rules: dict[str, str]
) -> None:
    _, text = checked(capsys, *argv, "--json")
    found = json.loads(text)
    assert {name: found[name] for name in rules} == rules


@pytest.mark.parametrize(
    ("argv", "warning"),
    [
        (("claude-opus-9",), "not in the table: its settings are fitted as for the newest of its vendor"),
        (("my-model", "--base-url", "http://127.0.0.1:8000"), "its settings are sent as they are"),
        (("claude-3-opus",), "not served since 2026-06-15"),
    ],
)
def test_a_model_that_is_not_known_or_has_ended_is_a_warning(
    capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], warning: str
) -> None:
    code, text = checked(capsys, *argv)
    assert code == 1
    assert warning in text


def test_a_wrong_provider_or_address_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, text = checked(capsys, "m", "--provider", "antropic")
    assert (code, "did you mean anthropic?" in text) == (2, True)
    code, text = checked(capsys, "m", "--base-url", "not an address")
    assert (code, "--base-url holds white space" in text) == (2, True)
