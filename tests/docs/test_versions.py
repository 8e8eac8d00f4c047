"""One version everywhere, and a policy that names every public package."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import api_pages
import rxworker
import rxworker.log.format
import rxworker.log.nats.connection
import rxworker.log.nats.format
import rxworker.log.postgres
import rxworker.log.postgres_connection
import rxworker.log.sqlite
import rxworker.resume.paused
from tests.ui.vendored import PACKAGES

ROOT = Path(__file__).parents[2]


def test_the_npm_package_and_the_changelog_have_the_version_of_the_package() -> None:
    package = json.loads((ROOT / "rxworker" / "ui" / "web" / "package.json").read_bytes())
    changelog = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)$", changelog, re.MULTILINE)
    assert newest is not None
    assert package["version"] == rxworker.__version__ == newest[1]


def test_the_policy_has_each_public_package_once() -> None:
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    rows = re.findall(r"^- (?:stable|provisional|experimental), with changes [^:]+: (.+)$", page, re.MULTILINE)
    assert len(rows) == 3
    named = re.findall(r"`(rxworker(?:\.\w+)*)`", " ".join(rows))
    named.remove("rxworker")  # the command, besides the package
    assert sorted(named) == sorted(api_pages.modules())


def test_the_page_of_versions_has_the_formats_and_systems_of_the_code() -> None:
    page = (ROOT / "docs" / "reference" / "versions.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^- ([^:]+): (.+)$", page, re.MULTILINE))
    log = rxworker.log
    written = {
        "entries of a log, and lines of `export_run`": log.format.VERSION,
        "a saved pause (`save_paused`)": rxworker.resume.paused.VERSION,
        "an SQLite file": log.sqlite.FORMAT,
        "a schema in Postgres": log.postgres.FORMAT,
        "streams in NATS": log.nats.format.FORMAT,
    }
    for what, version in written.items():
        assert rows[what].partition(";")[0] == f"version {version}", what
    assert rows["Postgres"] == f"{log.postgres_connection.OLDEST} or later"
    oldest = ".".join(map(str, log.nats.connection.OLDEST))
    assert rows["NATS"] == f"nats-server {oldest} or later"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert rows["Python"].startswith(f"{', '.join(pythons[:-1])} and {pythons[-1]}, ")
    assert project["requires-python"] == f">={pythons[0]}"


def test_the_readme_names_the_licences_of_the_files_of_others() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    line = readme.strip().splitlines()[-1]
    own, _, others = line.partition("; ")
    licences = {each for one in PACKAGES for each in one.licence.split(" AND ")}
    assert own == "MIT licence"
    assert set(re.findall(r"\b[A-Z]{2}[\w.-]*[\w]", others.partition("under")[2])) == licences
