"""The files for a deployment name only what exists."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rxworker.cli.main import make_parser
from rxworker.log import Fleet, RunInfo, RunRow, StoredStatus
from rxworker.ui.web.metrics import metrics_of
from rxworker.ui.web.store import CLOSING_SECONDS, DRAIN_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")


def unit(path: Path) -> dict[str, str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))


def check_command(words: list[str]) -> None:
    """Parse a command as `rxworker` does; a wrong option exits."""
    make_parser().parse_args(words)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_a_command_that_exists_and_waits_for_its_end(path: Path) -> None:
    found = unit(path)
    program, *words = shlex.split(found["ExecStart"])
    assert program == "/opt/rxworker/venv/bin/rxworker"
    check_command(words)
    assert found["KillSignal"] == "SIGTERM"
    assert int(found["TimeoutStopSec"]) > DRAIN_SECONDS + CLOSING_SECONDS


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_a_unit(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        return  # the other tests read the units on any machine
    text = path.read_text(encoding="utf-8")
    # It looks for the program.
    copy = tmp_path / path.name.replace("@", "@1")
    copy.write_text(text.replace("/opt/rxworker/venv/bin/rxworker", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if path.stem.rstrip("@") in line] == []


def test_the_image_has_extras_and_a_command_that_exist() -> None:
    extras = re.findall(r"rxworker\[([a-z,]+)\]", CONTAINER)[0].split(",")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(extras) <= set(project["optional-dependencies"])
    entry = json.loads(re.findall(r"^ENTRYPOINT (.+)$", CONTAINER, re.M)[0])
    command = json.loads(re.findall(r"^CMD (.+)$", CONTAINER, re.M)[0])
    assert entry == ["rxworker"]
    check_command(command)
    assert re.search(r"^USER (?!root)", CONTAINER, re.M)


def test_the_page_names_files_and_options_that_exist() -> None:
    for name in re.findall(r"\(\.\./\.\./(examples/[^)]+)\)", PAGE):
        assert (ROOT / name).exists(), name
    for words in re.findall(r"`rxworker (work|serve)([^`]*)`", PAGE):
        for option in re.findall(r"--[a-z-]+", words[1]):
            assert option in help_of(words[0]), option


def help_of(command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rxworker.cli", command, "--help"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    return done.stdout


def samples() -> dict[str, set[str]]:
    """The labels of each sample that the server can report."""
    fleet = Fleet()
    now = time.time()
    statuses: tuple[StoredStatus, ...] = ("queued", "running", "finished")
    for number, status in enumerate(statuses, 1):
        row = RunRow(status, worker="clerk", tool_durations=(1,), labels={"tenant": "acme"})
        fleet.note(RunInfo(f"run-{number}", row, 1, 1, "", 0.0, now, now, 0, number, 0))
    text = metrics_of(fleet, 0)[0].decode()
    return {
        sample.name: {*sample.labels}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_dashboard_asks_for_metrics_and_labels_that_exist() -> None:
    known = samples()
    board: Any = json.loads((ROOT / "examples" / "grafana" / "rxworker.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [variable["definition"] for variable in board["templating"]["list"]]
    assert len(asked) >= 15
    seen: set[str] = set()
    for query in asked:
        names = re.findall(r"\b(?:rxworker|process)_\w+", query.replace("rxworker.*", ""))
        assert names, query
        seen.update(names)
        for name in names:
            assert name in known, f"{name} in {query}"
            for labels in re.findall(rf"{name}\{{([^}}]*)\}}", query):
                for label in re.findall(r"(\w+)=", labels):
                    assert label in known[name] | {"job"}, f"{label} of {name} in {query}"
    # The dashboard leaves out no metric of ours.
    ours = {name for name in known if name.startswith("rxworker_")}
    left = {name for name in ours if not name.endswith(("_created", "_count", "_sum"))} - seen
    assert left == set()


def test_each_panel_has_a_place_of_its_own() -> None:
    board: Any = json.loads((ROOT / "examples" / "grafana" / "rxworker.json").read_text())
    places: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & places
        assert at["x"] + at["w"] <= 24
        places |= cells
