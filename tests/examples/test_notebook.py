"""The notebook, run by a kernel of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"

# As a process: the kernel's client warns of much that is not ours to mend.
RUN = """
import sys
import nbformat
from nbclient import NotebookClient

notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=40, kernel_name="python3").execute()
nbformat.write(notebook, sys.argv[2])
"""


@pytest.mark.slow
def test_the_notebook_runs_and_shows_the_answer(tmp_path: Path) -> None:
    done = tmp_path / "done.ipynb"
    process = subprocess.run(
        [sys.executable, "-c", RUN, str(NOTEBOOK), str(done)],
        capture_output=True,
        encoding="utf-8",
        timeout=55,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    cells = msgspec.json.decode(done.read_bytes())["cells"]
    outputs = {cell["id"]: cell.get("outputs", []) for cell in cells}
    for shown in (*outputs["watch"], *outputs["static"]):
        html = "".join(shown["data"]["text/html"])
        assert "**The moon** is a stone that shines." in html
        assert "finished" in html
        assert "".join(shown["data"]["text/plain"]).endswith("finished)")
    [printed] = outputs["result"]
    assert "".join(printed["text"]) == "**The moon** is a stone that shines. 15 tokens\n"
    [counted] = outputs["again"]
    assert "'RunStart': 1" in "".join(counted["data"]["text/plain"])


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = msgspec.json.decode(NOTEBOOK.read_bytes())["cells"]
    assert all(not cell.get("outputs") for cell in cells)
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert sum(map(len, code)) < 40
