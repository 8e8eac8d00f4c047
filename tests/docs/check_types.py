"""Type-check the Python blocks of the pages, as strictly as the code.

    python tests/docs/check_types.py              all pages; 1 where pyright reports an error
    python tests/docs/check_types.py PAGE ...     some of them

Each page is one module, with its blocks at their lines, so that an error is reported at its place in the page. Blocks
that do not run are left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]

SETTINGS: dict[str, object] = {
    "include": ["."],
    "extraPaths": [str(ROOT)],
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportMissingTypeStubs": False,
    # A page imports and defines the same names again and again, shows a value by naming it, and leaves names to the
    # blocks below.
    "reportDuplicateImport": False,
    "reportRedeclaration": False,
    "reportUnusedClass": False,
    "reportUnusedExpression": False,
    "reportUnusedFunction": False,
    "reportUnusedVariable": False,
}


def module_of(page: Path) -> str:
    """The blocks of a page as one module."""
    from test_blocks import blocks_of  # beside this file, which pytest collects from elsewhere

    lines: list[str] = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.runs:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.code.splitlines()
    return "\n".join(lines) + "\n"


def main() -> int:
    """Check the pages that are named, or all."""
    from test_blocks import PAGES

    named = [Path(name).resolve() for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory(prefix="pages-") as folder:
        for page in named or PAGES:
            name = str(page.relative_to(ROOT)).replace("/", "__").replace("-", "_")
            code = module_of(page)
            if code.strip():
                (Path(folder) / f"{name.removesuffix('.md')}.py").write_text(code, encoding="utf-8")
        config = Path(folder) / "pyrightconfig.json"
        config.write_text(json.dumps(SETTINGS), encoding="utf-8")
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(config)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    print(done.stdout.replace(folder + "/", ""), end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
