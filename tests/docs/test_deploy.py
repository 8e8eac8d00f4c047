"""The units, the image and the page about deployments name commands, options and extras that exist."""

from __future__ import annotations

import re
import shlex
import tomllib
from argparse import Namespace
from pathlib import Path

import pytest

from rxworker.cli.main import make_parser
from rxworker.ui.web.server import CLOSING_SECONDS
from rxworker.ui.web.store import CLOSING_SECONDS as RUNS_SECONDS
from rxworker.ui.web.store import DRAIN_SECONDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")
COMMAND = re.compile(r"(?:\bmy-workers|`rxworker) ((?:work|serve) (?!\.)-?[^`\n]*--[^`\n]+)")


def settings(unit: Path) -> dict[str, str]:
    """The settings of a unit. A line that ends with a backslash continues in the next one."""
    lines = unit.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def parsed(words: list[str]) -> Namespace:
    """The options, or an error that names the wrong one."""
    return make_parser().parse_args(words)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_has_options_that_exist_and_enough_time_to_end(unit: Path) -> None:
    found = settings(unit)
    program, *words = shlex.split(found["ExecStart"])
    assert program.endswith("/bin/rxworker")
    args = parsed(words)
    assert unit.name.removeprefix("rxworker-").startswith(args.command)
    end = (
        args.drain
        if args.command == "work"
        else args.close_delay + DRAIN_SECONDS + RUNS_SECONDS + CLOSING_SECONDS
    )
    assert float(found["TimeoutStopSec"]) >= end + 10
    assert found["KillSignal"] == "SIGTERM"
    variables = {*re.findall(r"\$\{(\w+)\}", found["ExecStart"])}
    if args.command == "serve":
        variables.add(args.token_env)
    described = re.findall(r"```ini\n(.+?)```", PAGE, re.DOTALL)[0]
    assert variables <= {line.partition("=")[0] for line in described.splitlines()}


def test_there_is_a_unit_for_each_command() -> None:
    assert [unit.name for unit in UNITS] == ["rxworker-serve.service", "rxworker-work@.service"]


def test_the_image_has_extras_that_exist_and_no_rights() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [extras] = re.findall(r'pip install .*"rxworker\[([a-z,]+)\]', CONTAINERFILE)
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}
    lines = dict(line.split(" ", 1) for line in CONTAINERFILE.splitlines() if line[:1].isupper())
    assert lines["ENTRYPOINT"] == '["rxworker"]'
    assert lines["USER"] not in ("0", "root")
    for copied in ("pyproject.toml", project["readme"], *project["license-files"], "rxworker"):
        assert (ROOT / copied).exists()
        assert copied in CONTAINERFILE


def test_the_commands_of_the_page_have_options_that_exist() -> None:
    commands = COMMAND.findall(PAGE)
    yaml = re.findall(r"args: \[(.+)\]", PAGE)
    assert (len(commands), len(yaml)) == (4, 1)
    for command in commands:
        if command.startswith("work --health PORT"):
            continue  # a fragment in a sentence
        parsed(shlex.split(command))
    parsed([word.strip().strip('"') for word in yaml[0].split(",")])


def test_each_file_is_named_on_the_page() -> None:
    for name in (
        "examples/deploy",
        "examples/deploy/Containerfile",
        "examples/grafana/rxworker.json",
    ):
        assert f"../../{name})" in PAGE
