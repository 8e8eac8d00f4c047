"""The files for a deployment name only what exists."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import time
import tomllib
from argparse import Namespace
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from rxworker.cli.main import main, make_parser
from rxworker.desk.conversation import DRAIN_SECONDS
from rxworker.log import Fleet, RunInfo
from rxworker.log.values import RunRow, StoredStatus
from rxworker.panels import USAGE
from rxworker.ui.web import server
from rxworker.ui.web.boards.metrics import metrics_of
from rxworker.ui.web.runs.store import CLOSING_SECONDS
from tests.boards.test_ready_panels import RECORDS

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"
GRAFANA = "examples/grafana/rxworker.json"
UNITS = sorted(DEPLOY.glob("*.service"))
CONTAINER = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "how-to" / "deploy.md").read_text(encoding="utf-8")


def unit(path: Path) -> dict[str, dict[str, str]]:
    """The settings of each section. A setting that is given twice is an error."""
    parser = ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue] - names have capital letters
    parser.read_string(path.read_text(encoding="utf-8"))
    return {name: dict(parser[name]) for name in parser.sections()}


def parse(words: list[str]) -> Namespace:
    """Parse a command as `rxworker` does; a wrong option exits."""
    return make_parser().parse_args(words)


def block_of(language: str) -> str:
    """The first block of the page in this language."""
    return re.findall(rf"```{language}\n(.+?)```", PAGE, re.DOTALL)[0]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_a_command_that_exists_and_waits_for_its_end(path: Path) -> None:
    service = unit(path)["Service"]
    program, *words = shlex.split(service["ExecStart"])
    assert program == "/opt/rxworker/venv/bin/rxworker"
    args = parse(words)
    assert path.name.removeprefix("rxworker-").startswith(args.command)
    end = args.drain if args.command == "work" else args.close_delay + closing_seconds()
    assert float(service["TimeoutStopSec"]) >= end + 10
    assert service["KillSignal"] == "SIGTERM"
    # The page describes the file with the variables, and puts it where the unit reads it.
    variables = {*re.findall(r"\$\{(\w+)\}", service["ExecStart"])}
    if args.command == "serve":
        variables.add(args.token_env)
    assert variables <= {line.partition("=")[0] for line in block_of("ini").splitlines()}
    assert f"{service['EnvironmentFile']}\n" in block_of("sh")


def closing_seconds() -> float:
    return DRAIN_SECONDS + CLOSING_SECONDS + server.CLOSING_SECONDS


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_few_rights_and_shares_its_files_with_the_others(path: Path) -> None:
    found = unit(path)
    assert {*found} == {"Unit", "Service", "Install"}
    service = found["Service"]
    assert service["User"] not in ("", "root")
    assert "DynamicUser" not in service  # each unit would take the directory from the others
    assert (service["ProtectSystem"], service["CapabilityBoundingSet"]) == ("strict", "")
    others = [unit(other)["Service"] for other in UNITS]
    same = {name for name in service if re.match(r"Protect|Private|Restrict\w|System|User|State", name)}
    assert len(same) > 15
    for name in same - {"RestartPreventExitStatus"}:
        assert {other[name] for other in others} == {service[name]}, name


def test_there_is_a_unit_for_each_command() -> None:
    assert [path.name for path in UNITS] == ["rxworker-serve.service", "rxworker-work@.service"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_accepts_a_unit(path: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        return  # the other tests read the units on any machine
    text = path.read_text(encoding="utf-8")
    # It looks for the program.
    copy = tmp_path / path.name.replace("@", "@1")
    copy.write_text(text.replace("/opt/rxworker/venv/bin/rxworker", "/bin/true"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if path.stem.rstrip("@") in line] == []


def test_the_image_is_built_from_files_and_extras_that_exist_and_has_no_rights() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = settings["project"]
    steps = CONTAINER.replace("\\\n", " ").splitlines()
    lines = [line.split(" ", 1) for line in steps if line[:1].isupper()]
    (install,) = [rest for name, rest in lines if name == "RUN"]
    pip, *_ = install.split("&&")
    words = shlex.split(pip)
    assert words[:2] == ["pip", "install"]
    # From the copy of the checkout: in an index, the name may belong to others.
    wanted = [word for word in words[2:] if not word.startswith("-")]
    assert len(wanted) == 1
    found = re.fullmatch(r"rxworker\[([a-z,]+)\] @ file:///src", wanted[0])
    assert found is not None
    assert {*found[1].split(",")} <= {*project["optional-dependencies"]}
    copied = [word for name, rest in lines if name == "COPY" for word in rest.split()[:-1]]
    hatch = settings["tool"]["hatch"]
    built_with = {"pyproject.toml", "README.md", *project["license-files"]}
    built_with |= {*hatch["build"]["targets"]["wheel"]["packages"]}
    built_with |= {hatch["metadata"]["hooks"]["custom"]["path"]}
    built_with |= {*hatch["build"]["targets"]["wheel"]["force-include"]}
    missing = [n for n in built_with if not any(f"{n}/".startswith(f"{c}/") for c in copied)]
    assert missing == []
    assert all((ROOT / name).exists() for name in copied)
    last = dict(map(tuple[str, str], lines))
    assert json.loads(last["ENTRYPOINT"]) == [*project["scripts"]] == ["rxworker"]
    assert int(last["USER"]) > 0
    assert last["STOPSIGNAL"] == "SIGTERM"


def test_the_page_names_files_commands_and_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    files = re.findall(r"\(\.\./\.\./(examples/[^)]+)\)", PAGE)
    assert {"examples/deploy", "examples/deploy/Containerfile", GRAFANA} <= {*files}
    assert all((ROOT / name).exists() for name in files)
    commands = re.findall(r"(?:my-workers|`rxworker) ((?:work|serve)[^`\n]*)", PAGE)
    commands += [arguments.replace(",", " ") for arguments in re.findall(r"args: \[(.+)\]", PAGE)]
    assert len(commands) > 8
    for command in commands:
        words = shlex.split(command)
        parse(words if "--log" in words else [*words, "--log", "URL", *["module:f"][: words[0] == "work"]])
    assert main(["work", "--help"]) == main(["serve", "--help"]) == 0
    described = capsys.readouterr().out
    of_podman = {"--init", "--stop-timeout"}
    for option in {*re.findall(r"`(--[a-z-]+)", PAGE)} - of_podman:
        assert f"  {option} " in described, option


def test_the_manifest_fits_together_and_leaves_time_to_end() -> None:
    (text,) = re.findall(r"```yaml\n(apiVersion.+?)```", PAGE, re.DOTALL)
    parts: list[dict[str, Any]] = list(yaml.safe_load_all(text))
    named = {(part["kind"], part["metadata"]["name"]): part for part in parts}
    variables = {name: {*part["stringData"]} for (kind, name), part in named.items() if kind == "Secret"}
    for name in ("rxworker-serve", "rxworker-work"):
        spec = named["Deployment", name]["spec"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
        args = parse(container["args"])
        given = {v for each in container["envFrom"] for v in variables[each["secretRef"]["name"]]}
        is_server = args.command == "serve"
        wanted = {"RXWORKER_LOG", args.token_env} if is_server else {"RXWORKER_LOG"}
        assert (args.log if is_server else args.address) == "$(RXWORKER_LOG)"
        assert wanted <= given
        port = 8080 if is_server else args.health[1]
        for probe in ("livenessProbe", "readinessProbe"):
            assert container[probe]["httpGet"]["port"] == port
        end = args.drain if args.command == "work" else args.close_delay + closing_seconds()
        assert pod["terminationGracePeriodSeconds"] >= end + 10
    service, ingress = named["Service", "rxworker"]["spec"], named["Ingress", "rxworker"]["spec"]
    assert service["selector"] == {"app": "rxworker-serve"}
    assert service["ports"] == [{"port": 80, "targetPort": 8080}]
    (rule,) = ingress["rules"]
    assert f" --allow-host, {rule['host']}," in text
    assert ingress["tls"][0]["hosts"] == [rule["host"]]


def test_the_page_names_metrics_that_exist() -> None:
    named = re.findall(r"\brxworker_\w+", PAGE)
    assert len(named) > 4
    assert {*named} <= {*samples()}


def samples() -> dict[str, set[str]]:
    """The labels of each sample that the server can report."""
    fleet, meters = Fleet(), USAGE.at(RECORDS)
    now = time.time()
    statuses: tuple[StoredStatus, ...] = ("queued", "running", "finished")
    for number, status in enumerate(statuses, 1):
        row = RunRow(status, worker="clerk", tool_durations=(1,), labels={"tenant": "acme"})
        fleet.note(RunInfo(f"run-{number}", row, 1, 1, "", 0.0, now, now, 0, number, 0))
    text = metrics_of(fleet, 0, [(USAGE, meters)], meters)[0].decode()
    return {
        sample.name: {*sample.labels} for family in text_string_to_metric_families(text) for sample in family.samples
    }


def test_the_dashboard_queries_metrics_and_labels_that_exist() -> None:
    known = samples()
    board: Any = json.loads((ROOT / GRAFANA).read_text())
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
    board: Any = json.loads((ROOT / GRAFANA).read_text())
    places: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & places
        assert at["x"] + at["w"] <= 24
        places |= cells
