"""The files of others that the page contains, and their bill of materials (CycloneDX 1.6), which the wheel carries.

PEP 770 describes how a wheel carries it.

``python tests/ui/vendored.py`` compares them with the packages of the npm registry, byte by byte, which ``npm install
--no-package-lock --prefix tests/integration/page`` installs. After a version in that folder's package.json has changed,
``--write`` takes the files of the new version and writes the bill again.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "rxworker" / "ui" / "web" / "static" / "vendor"
BILL = VENDOR / "vendored.cdx.json"
PAGE = ROOT / "tests" / "integration" / "page"
MODULES = PAGE / "node_modules"
VERSIONS: dict[str, str] = json.loads((PAGE / "package.json").read_bytes())["dependencies"]


class Vendored(NamedTuple):
    """A package: the folder that has its files, its name on npm, its licences, and where the files are in it."""

    folder: str
    package: str
    licence: str
    root: str

    @property
    def version(self) -> str:
        return VERSIONS[self.package]

    @property
    def purl(self) -> str:
        return f"pkg:npm/{self.package.replace('@', '%40')}@{self.version}"

    def files(self) -> dict[str, Path]:
        """Our copies, by their path in the package.

        The fonts' licence is in their name tables alone, so that its text is ours to add.
        """
        found = {
            path.relative_to(VENDOR / self.folder).as_posix(): path
            for path in sorted((VENDOR / self.folder).rglob("*"))
            if path.is_file() and path.name != "OFL.txt"
        }
        return {n if n == "LICENSE" else f"{self.root}/{n}": path for n, path in found.items()}

    def differences(self) -> list[str]:
        """What differs between our copies and the package of the registry."""
        return [
            f"{path.relative_to(ROOT)}: not as in {self.package} {self.version}"
            for name, path in self.files().items()
            if (MODULES / self.package / name).read_bytes() != path.read_bytes()
        ]


PACKAGES = [
    Vendored("katex", "katex", "MIT AND OFL-1.1", "dist"),
    Vendored("markdown-it", "markdown-it", "MIT", "dist/browser"),
    Vendored("speed-highlight", "@speed-highlight/core", "CC0-1.0", "dist"),
    Vendored("uplot", "uplot", "MIT", "dist"),
]


def bill() -> str:
    """The bill of materials of the files as they are."""
    components: list[dict[str, object]] = []
    for one in PACKAGES:
        files: list[dict[str, object]] = []
        for name, path in one.files().items():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            files.append({"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]})
        components.append(
            {
                "type": "library",
                "bom-ref": one.purl,
                "name": one.package,
                "version": one.version,
                "purl": one.purl,
                "licenses": [{"expression": one.licence}],
                "components": files,
            }
        )
    whole = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "bom-ref": "rxworker", "name": "rxworker"}},
        "components": components,
        "dependencies": [{"ref": "rxworker", "dependsOn": [one.purl for one in PACKAGES]}],
    }
    return json.dumps(whole, indent=1) + "\n"


def main() -> int:
    """Compare, or write with ``--write``."""
    if sys.argv[1:] == ["--write"]:
        for one in PACKAGES:
            for name, path in one.files().items():
                path.write_bytes((MODULES / one.package / name).read_bytes())
        BILL.write_text(bill(), encoding="utf-8")
        return 0
    found = [line for one in PACKAGES for line in one.differences()]
    print("\n".join(found) or f"{len(PACKAGES)} packages: as in the registry")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
