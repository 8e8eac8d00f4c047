"""Node, and the packages of npm that tests talk to."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest


def node_with(folder: Path, file: str, variable: str = "") -> tuple[str, str]:
    """The command of node, and a file or folder of the packages that are installed in a folder.

    Without them, the test is skipped, or it fails where everything has to be there.

    Args:
        folder: The folder.
        file: Its path below ``node_modules``.
        variable: An environment variable that may name another folder.
    """
    node = shutil.which("node")
    folders = [Path(os.environ.get(variable) or folder), folder]
    found = next((path for each in folders if (path := each / "node_modules" / file).exists()), None)
    if node is not None and found is not None:
        return node, str(found)
    missing = "node is not installed"
    if node is not None:
        place = f"npm install --no-package-lock --prefix tests/integration/{folder.name}"
        missing = f"{file} is not installed: {place}" + f", or set {variable} to a folder that has it" * bool(variable)
    if os.environ.get("RXWORKER_REQUIRE_ALL") == "1":
        pytest.fail(missing)
    pytest.skip(missing)
