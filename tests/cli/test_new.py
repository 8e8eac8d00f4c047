"""Projects from templates: each is written, passes its own test, and starts by the commands of its README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rxworker import __version__
from rxworker.cli import main
from rxworker.cli.docs import docs_folder, find
from rxworker.cli.new import FOLDER, TEMPLATES
from tests.whole import IS_WHOLE


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("projects")
    for template in TEMPLATES:
        assert main(["new", template, str(folder / f"my-{template}")]) == 0
    return folder


def test_every_folder_of_templates_is_one_that_can_be_chosen() -> None:
    found = {path.name for path in FOLDER.iterdir() if path.is_dir()} - {"__pycache__"}
    assert found == set(TEMPLATES)


# A step of .ci/run tests those of all templates, in the environment of a user.
@pytest.mark.parametrize("template", TEMPLATES if IS_WHOLE else ["board"])
def test_a_project_passes_its_own_test(template: str, projects: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=projects / f"my-{template}",
        # A fresh environment has no plugins, and not the options of this run.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_names_itself_and_what_it_needs(template: str, projects: Path) -> None:
    project = projects / f"my-{template}"
    needed = (project / "requirements.txt").read_text(encoding="utf-8")
    assert re.match(rf"rxworker\[{TEMPLATES[template]}\](>=| @ file:)\S+\npytest", needed)
    readme = (project / "README.md").read_text(encoding="utf-8")
    assert readme.startswith(f"# my-{template}\n")
    assert not re.search(r"\b(NAME|REQUIREMENT)\b", readme)
    for page in re.findall(r"`rxworker docs ([\w-]+)`", readme):
        assert find(docs_folder(), page), page
    for module, name in re.findall(r"\b(\w+):(\w+)", readme):
        if (project / f"{module}.py").exists():
            assert re.search(rf"^(def )?{name}\b", (project / f"{module}.py").read_text(), re.M)


@pytest.mark.parametrize(
    ("origin", "needed"),
    [
        ('{"dir_info": {}, "url": "file:///a/checkout"}', " @ file:///a/checkout"),
        ('{"archive_info": {}, "url": "file:///a/rxworker.whl"}', " @ file:///a/rxworker.whl"),
        ('{"vcs_info": {"vcs": "git"}, "url": "https://example.org/r"}', f">={__version__}"),
        (None, f">={__version__}"),
    ],
)
def test_a_project_installs_the_rxworker_that_made_it(
    origin: str | None, needed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "site" / "rxworker-9.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: rxworker\nVersion: 9\n")
    if origin:
        (installed / "direct_url.json").write_text(origin)
    monkeypatch.setattr(sys, "path", [str(installed.parent), *sys.path])
    assert main(["new", "chat", str(tmp_path / "desk")]) == 0
    lines = (tmp_path / "desk" / "requirements.txt").read_text().splitlines()
    assert lines == [f"rxworker[cli]{needed}", "pytest>=8"]


def test_a_folder_with_files_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada")
    assert main(["new", "chat", str(tmp_path)]) == 2
    assert "has files: give a new folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a b", "is not a name of a project"),
        ("a\nimport os", "is not a name of a project"),
        ("a`$(id)`", "is not a name of a project"),
        ("-x", "is not a name of a project"),
        ("x/../..", "has files: give a new folder"),
        ("dangling", "cannot make"),
        ("letter.txt/x", "cannot make"),
    ],
)
def test_a_folder_that_no_project_can_have_is_refused(
    name: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert main(["new", "chat", "--", f"{tmp_path}/{name}"]) == 2
    assert why in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"letter.txt", "dangling"}
