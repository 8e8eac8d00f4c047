"""The libraries that the page ships are those of the registry, to the byte."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import rxworker.ui.web

SHIPPED = Path(rxworker.ui.web.__file__).parent / "static" / "vendor"
FOLDER = Path(__file__).parent / "page"
PACKAGES = {
    "katex": ("katex", ("dist", ".")),
    "markdown-it": ("markdown-it", ("dist/browser", ".")),
    "speed-highlight": ("@speed-highlight/core", ("dist", ".")),
}


@pytest.fixture
def modules() -> Path:
    found = FOLDER / "node_modules"
    if found.exists():
        return found
    missing = "the packages are not installed: npm install --no-package-lock --prefix tests/integration/page"
    if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
        pytest.fail(missing)
    pytest.skip(missing)


def test_every_library_of_the_page_has_its_licence_and_is_known() -> None:
    assert {path.name for path in SHIPPED.iterdir()} == set(PACKAGES)
    for name in PACKAGES:
        assert (SHIPPED / name / "LICENSE").is_file(), name


def test_each_file_has_the_bytes_of_the_registry(modules: Path) -> None:
    for name, (package, folders) in PACKAGES.items():
        for path in (SHIPPED / name).rglob("*.*"):
            at = path.relative_to(SHIPPED / name)
            assert any(
                (origin := modules / package / folder / at).is_file()
                and origin.read_bytes() == path.read_bytes()
                for folder in folders
            ), path
