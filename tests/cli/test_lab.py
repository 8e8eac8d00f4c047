"""``rxworker lab``: stored runs again, from the command line."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rxworker import Worker
from rxworker.cli import main
from rxworker.events import Annotation
from rxworker.log import open_log
from rxworker.testing import ScriptedModel

SECRET = "sk-0123456789abcdef"
CANDIDATES = """
from rxworker import Worker
from rxworker.testing import ScriptedModel

def make_same():
    return Worker(ScriptedModel([]), system="Be brief.")

def make_kind():
    return Worker(ScriptedModel([]), system="Be <kind> with sk-0123456789abcdef.")

def make_real():
    return Worker(ScriptedModel(["Hello."]))

def make_for(tenant):
    return Worker(ScriptedModel([]))
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "lab_candidates.py").write_text(CANDIDATES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACME_API_KEY", SECRET)
    monkeypatch.setattr(sys, "path", [*sys.path])

    async def fill() -> None:
        async with open_log("sqlite:runs.db") as log:
            for tenant in ("acme", "globex", "acme"):
                labels = {"tenant": tenant, "user": "ada-lovelace"}
                run = Worker(ScriptedModel(["Hello."]), system="Be brief.", labels=labels, log=log).run("Hi")
                await run
            await log.annotate(run.id, Annotation("golden", True))

    asyncio.run(fill())
    yield "sqlite:runs.db"
    sys.modules.pop("lab_candidates", None)


def lab(log: str, *arguments: str) -> int:
    return main(["lab", "--log", log, *arguments])


def test_the_same_worker_is_a_success(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(log, "lab_candidates:make_same") == 0
    shown = capsys.readouterr().out
    assert "3 runs, 3 same, 0 differ, 0 not rerun; 30 tokens in, 15 out, cost 3 unknown" in shown
    assert lab(log, "--where", "tag:golden", "lab_candidates:make_same") == 0
    assert "1 run, 1 same" in capsys.readouterr().out
    assert lab(log, "--where", "tenant=globex", "lab_candidates:make_same") == 0
    assert "1 run, 1 same" in capsys.readouterr().out


def test_a_difference_is_a_failure_in_every_report_without_secrets_and_labels(
    log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {form: tmp_path / f"lab.{form}" for form in ("html", "junit", "json")}
    options = [f"--{form}={file}" for form, file in files.items()]
    assert lab(log, "lab_candidates:make_kind", *options) == 1
    reports = [capsys.readouterr().out, *(file.read_text(encoding="utf-8") for file in files.values())]
    for text in reports:
        assert "Be brief." in text
        assert "kind" in text
        assert "with ***." in text
        for hidden in (SECRET, "acme", "ada-lovelace", "globex"):
            assert hidden not in text
    assert "<kind>" not in reports[1]
    suite = ElementTree.parse(files["junit"]).getroot()[0]
    assert suite.get("failures") == suite.get("tests") == "3"
    assert [case.get("name") for case in suite] == [each["run_id"] for each in json.loads(reports[3])[""]]


def test_the_label_of_the_groups_is_shown(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(log, "--group", "tenant", "lab_candidates:make_same") == 0
    shown = capsys.readouterr().out
    assert "acme: 2 runs, 2 same" in shown
    assert "globex: 1 run, 1 same" in shown
    assert "all: 3 runs, 3 same" in shown
    assert "ada-lovelace" not in shown


def test_the_real_model_needs_a_budget(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert lab(log, "--model", "real", "lab_candidates:make_real") == 2
    assert "--max-cost AMOUNT or --max-tokens N" in capsys.readouterr().err
    assert lab(log, "--model", "real", "--max-tokens", "20", "lab_candidates:make_real") == 0
    assert "3 runs, 2 same, 0 differ, 1 not rerun" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["lab_candidates:make_for"], 2, "it needs tenant"),
        (["lab_candidates:make_same", "--tools", "all"], 2, "write real for all"),
        (["lab_candidates:make_same", "--tools", "real:fly"], 1, "the candidate has no tool 'fly'; it has: none"),
        (["lab_candidates:make_same", "--where", "tag:silver"], 1, "no run is selected"),
        (["lab_candidates:make_same", "--where", "colour=red"], 1, "there is no filter 'colour'"),
        (["lab_candidates:make_same", "--max-cost", "much", "--model", "real"], 2, "'much' is not an amount"),
        (["lab_candidates:make_same", "--max-tokens", "9"], 2, "the budget of --model real"),
        (["lab_candidates:make_same", "--html", "nowhere/r.html"], 2, "there is no folder 'nowhere' for the report"),
    ],
)
def test_what_is_wrong_is_named(
    log: str, arguments: list[str], code: int, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lab(log, *arguments) == code
    assert error in capsys.readouterr().err


def test_a_log_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "none.db"
    assert lab(f"sqlite:{file}", "tests.cli.test_lab:test_what_is_wrong_is_named") == 2
    assert lab(f"sqlite:{file}", "tests.cli.test_lab:nothing") == 1
    assert "there is no log at" in capsys.readouterr().err
    assert not file.exists()


def nothing() -> None:
    """A maker that is never called."""
