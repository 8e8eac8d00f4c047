"""The files of others.

Each belongs to a package of the bill of materials, is as it was taken, and has its licence beside it.
"""

from __future__ import annotations

import os
import tomllib

import pytest

from tests.ui.vendored import BILL, MODULES, PACKAGES, ROOT, VENDOR, bill


def test_the_bill_of_materials_has_every_file_as_it_is() -> None:
    assert BILL.read_text(encoding="utf-8") == bill(), "run python tests/ui/vendored.py --write"
    assert {p.name for p in VENDOR.iterdir() if p.is_dir()} == {one.folder for one in PACKAGES}


def test_each_package_has_its_licence_and_the_project_names_them_all() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    licences = {"MIT"}
    for one in PACKAGES:
        assert "LICENSE" in one.files(), one.folder
        licences |= set(one.licence.split(" AND "))
    assert set(project["license"].split(" AND ")) == licences
    assert (VENDOR / "katex" / "fonts" / "OFL.txt").exists()


def test_each_file_has_the_bytes_of_the_registry() -> None:
    if not MODULES.exists():
        missing = "the packages are not installed: npm install --no-package-lock --prefix tests/integration/page"
        if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    assert [line for one in PACKAGES for line in one.differences()] == []
