"""The documentation in the terminal: pages, sections, search, and the pages that errors name."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
import traceback
from functools import cache
from pathlib import Path

import pytest

from rxworker import Worker, errors, tool
from rxworker.cli import main
from rxworker.cli.docs import (
    OF_CONTRIBUTORS,
    Section,
    answers,
    docs_folder,
    find,
    index_text,
    page_names,
    search,
    sections,
    whole_text,
)
from rxworker.errors import ConfigurationError, RxWorkerError
from rxworker.testing import ScriptedModel

ROOT = Path(__file__).parents[2]


names_once = cache(page_names)


@cache
def sections_once(folder: Path, page: str) -> tuple[Section, ...]:
    return tuple(sections(folder, page))


@pytest.fixture(autouse=True)
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages are read and cut into sections once: each search would read all of them again."""
    module = sys.modules["rxworker.cli.docs"]
    monkeypatch.setattr(module, "page_names", names_once)
    monkeypatch.setattr(module, "sections", sections_once)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["docs", *arguments]) == 0
    return capsys.readouterr().out


def test_a_page_is_found_by_its_name_with_or_without_its_folder(capsys: pytest.CaptureFixture[str]) -> None:
    page = (ROOT / "docs" / "how-to" / "tools.md").read_text(encoding="utf-8")
    for name in ("tools", "how-to/tools", "how-to/tools.md", "Tools"):
        assert printed(capsys, name) == page


def test_every_section_of_every_page_is_found_by_its_name() -> None:
    folder = docs_folder()
    assert len(page_names(folder)) > 50
    for page in page_names(folder):
        parts = list(sections(folder, page))
        whole = (folder / f"{page}.md").read_text(encoding="utf-8")
        assert "".join(part.text for part in parts) == whole
        for part in parts[1:]:
            assert find(folder, part.name), part.name


def test_the_wheel_has_every_page_for_users_and_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = tuple(project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"])
    names = page_names(docs_folder())
    others = {n for n in names if not f"docs/{n}.md".startswith(included)}
    assert others == set(OF_CONTRIBUTORS) - {"changelog"}


def test_a_search_begins_with_what_has_the_words_in_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    first, *others = printed(capsys, "virtual", "time").splitlines()
    assert first.startswith("how-to/test-your-worker#virtual-time ")
    assert others


@pytest.mark.parametrize(
    "name",
    [
        *("../README", "..", "/etc/passwd", "how-to/../../LICENSE", "changes/README", "tools\0", "*", "[a-z]*"),
        "index#../x",
    ],
)
def test_no_name_leads_out_of_the_pages(name: str) -> None:
    assert find(docs_folder(), name) == ""


QUESTIONS = [
    ("openrouter", "how-to/hosts#openrouter"),
    ("pii", "how-to/operate-a-log#personal-data-pii"),
    ("personal data", "how-to/operate-a-log#personal-data-pii"),
    ("gdpr", "how-to/operate-a-log#delete-a-users-data-gdpr"),
    ("529", "how-to/errors-and-retries#rate-limits-and-overload-429-503-529"),
    ("rate limit", "how-to/errors-and-retries#rate-limits-and-overload-429-503-529"),
    ("kubernetes", "how-to/deploy#in-kubernetes"),
    ("How do I run it in Docker?", "how-to/deploy#in-docker-or-podman"),
    ("stop button", "how-to/cancel-and-pause#a-stop-button"),
    ("cost", "how-to/watch-a-run#what-a-run-costs"),
    ("replay", "how-to/fork-and-compare#replay-a-run"),
    ("bedrock", "how-to/providers-and-keys#amazon-bedrock"),
    ("nginx", "how-to/deploy#behind-a-proxy"),
    ("local model", "how-to/hosts#local-models-vllm-ollama-llamacpp-lm-studio"),
    ("timeout", "how-to/errors-and-retries#time-outs"),
    ("late subscriber", "how-to/watch-a-run#come-late"),
    ("start at number", "how-to/watch-a-run#come-late"),
    ("slow consumer", "how-to/watch-a-run#a-delivery-for-each"),
    ("backpressure", "how-to/watch-a-run#a-delivery-for-each"),
    ("consumer that raises", "how-to/watch-a-run#a-watcher-that-fails"),
    ("deny", "how-to/cancel-and-pause#pause-for-a-person"),
    ("approval in another process", "how-to/cancel-and-pause#pause-for-a-person"),
    ("hand_over", "how-to/recover#shut-down"),
    ("letters a second", "how-to/dashboards#time"),
    ("read a dashboard at a past moment", "how-to/dashboards#time"),
    ("dashboard as JSON over HTTP", "reference/web-server#addresses"),
    ("moderate text", "how-to/text#a-gate"),
    ("mask an answer", "how-to/text#mask-parts-of-the-text"),
    ("second model when the first is overloaded", "how-to/several-models#fallback"),
    ("retry limit", "how-to/errors-and-retries#rate-limits-and-overload-429-503-529"),
    ("queue with tenants", "how-to/several-machines#tenants-and-priorities"),
    ("RunRow", "reference/log"),
    ("zzz-unknown sentences", "how-to/text#lines-and-sentences"),
]


@pytest.mark.product(3)
@pytest.mark.parametrize(("words", "place"), QUESTIONS)
def test_the_words_of_a_question_lead_to_its_answer(words: str, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, *words.split()).split()[0] == place


def test_every_question_has_an_answer_that_can_be_printed() -> None:
    rows = [*answers(docs_folder())]
    page = (docs_folder() / "questions.md").read_text(encoding="utf-8")
    assert len(rows) == page.count("\n- ") > 40
    assert [name for _, name in rows if not find(docs_folder(), name)] == []


def test_a_section_is_printed_with_those_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "serve#several-users")
    assert "### A session with a cookie" in text
    assert text.count("\n## ") == 0


def test_words_that_no_page_has_are_one_line_with_the_way_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "?"]) == 1
    assert "rxworker docs lists the pages" in capsys.readouterr().err
    assert main(["docs", "zzz", "qqq"]) == 1
    error = capsys.readouterr().err
    assert "rxworker docs lists the pages" in error
    assert error.count("\n") == 1


def test_the_list_has_each_page_of_the_index_once_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line for line in printed(capsys).splitlines() if line.startswith("- ")]
    assert len(lines) == len(set(lines)) > 50
    assert len([line for line in lines if line.endswith(".")]) > len(lines) - 6
    assert index_text(docs_folder(), "{page}.md").count(".md)") == len(lines)


def test_the_whole_text_has_the_pages_that_a_program_is_written_with(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--all")
    assert text == whole_text(docs_folder())
    assert "<!-- how-to/tools.md -->" in text
    assert "<!-- changelog.md -->" not in text


CLASSES = [found for _, found in inspect.getmembers(errors, inspect.isclass) if issubclass(found, RxWorkerError)]


def test_the_pages_that_errors_name_exist() -> None:
    named = {found.page for found in CLASSES} | set(errors._PAGES.values()) - {""}
    assert [page for page in named if page and not find(docs_folder(), page)] == []


def test_the_traceback_of_a_mistake_ends_with_the_page_of_what_was_called() -> None:
    with pytest.raises(ConfigurationError) as raised:
        tool(colour="red")  # type: ignore[call-overload]  # pyright: ignore
    assert traceback.format_exception(raised.value)[-1] == "More: rxworker docs tools\n"
    with pytest.raises(RxWorkerError) as ended:
        Worker(ScriptedModel([])).run_sync("hi")
    assert ended.value.page == "test-your-worker"


def test_a_word_that_no_page_has_is_taken_for_the_most_similar_one() -> None:
    folder = docs_folder()
    assert search(folder, "aproval") == search(folder, "approval")
    assert search(folder, "webhok qwxzk") == search(folder, "webhook qwxzk")
    assert search(folder, "qwxzk") == []


ITEM = re.compile(r"^- ((?:`[A-Za-z_]\w*`(?:, )?)+): (.*)", re.MULTILINE)


def test_each_name_of_the_reference_of_logs_is_in_the_module_that_its_row_names() -> None:
    page = (docs_folder() / "reference" / "log.md").read_text(encoding="utf-8")
    wrong: list[str] = []
    items = ITEM.findall(page.partition("\n\n## ")[0])
    assert len(items) > 20
    for names, row in items:
        named = re.search(r"[Ff]rom `(rxworker[\w.]*)`", row)
        module = importlib.import_module(named[1] if named else "rxworker.log")
        wrong += [name for name in re.findall(r"\w+", names) if not hasattr(module, name)]
    assert wrong == []
