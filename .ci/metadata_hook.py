"""Metadata that depend on where the repository is: the readme with whole addresses, and the addresses of the project.

A package index shows the readme away from the repository, where a link such as ``docs/index.md`` leads nowhere.
``RXWORKER_REPOSITORY`` has the address of the repository, for example ``https://example.org/rxworker``. Without it, as
in an installation from a checkout, the links stay as they are and the project has no addresses.
"""

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def with_addresses(readme: str, repository: str, version: str) -> str:
    """The readme, its relative links changed to the files of a version.

    Pictures as they are, other files as a forge shows them.
    """

    def changed(link: re.Match[str]) -> str:
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({repository}/{kind}/v{version}/{link['path']})"

    return re.sub(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>(?![a-z]+:|#)[^)\s]+)\)", changed, readme)


class RepositoryMetadata(MetadataHookInterface):
    """The hook that hatchling calls before it writes metadata."""

    def update(self, metadata: dict[str, Any]) -> None:  # hatchling's signature
        """Set what ``dynamic`` in pyproject.toml names, except the version."""
        root = Path(self.root)
        readme = (root / "README.md").read_text(encoding="utf-8")
        source = (root / "rxworker" / "__init__.py").read_text(encoding="utf-8")
        found = re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)
        assert found is not None, "rxworker/__init__.py has no __version__"
        repository = os.environ.get("RXWORKER_REPOSITORY", "").rstrip("/")
        if repository:
            readme = with_addresses(readme, repository, found[1])
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/v{found[1]}/docs/index.md",
                "Changelog": f"{repository}/blob/v{found[1]}/docs/changelog.md",
                "Issues": f"{repository}/issues",
                "Security": f"{repository}/blob/v{found[1]}/docs/SECURITY.md",
            }
        else:
            metadata["urls"] = {}
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
