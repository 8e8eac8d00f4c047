"""``rxworker new``: a project to start from, made of a template. Each starts without a key, and has a test."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path

from rxworker import __version__
from rxworker.cli.process import MISUSED, CommandError, write_line

FOLDER = Path(__file__).parent / "templates"
TEMPLATES = {"chat": "cli", "board": "cli", "tool-server": "cli,mcp", "moderator": "cli", "fleet": "cli"}
"""The extras that each template needs."""


def new(template: str, folder: str) -> int:
    """Write a project into a new or empty folder.

    Args:
        template: A name in `TEMPLATES`.
        folder: Where; the last part of it is the name of the project.

    Returns:
        The exit code.

    Raises:
        CommandError: The folder has files or cannot be made, or its name is not one of a project.
    """
    target = Path(folder)
    if ".." in target.parts:
        # Below a folder that does not exist yet, the path leads elsewhere once that is made: check the place that is
        # written.
        target = target.resolve()
    name = target.resolve().name
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise CommandError(f"{name!r} is not a name of a project: use letters, digits, - and _", MISUSED)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} has files: give a new folder", MISUSED)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"cannot make {target}: {error.strerror}", MISUSED) from error
    files = [FOLDER / "requirements.txt", *sorted((FOLDER / template).iterdir())]
    needed = _requirement(TEMPLATES[template])
    for file in files:
        if file.suffix not in (".py", ".md", ".txt"):
            continue
        text = file.read_text(encoding="utf-8")
        if file.suffix != ".py":
            text = text.replace("NAME", name).replace("REQUIREMENT", needed)
        (target / file.name).write_text(text, encoding="utf-8")
        write_line(str(target / file.name))
    write_line(f"\n{target / 'README.md'} has the commands that start and test it.")
    return 0


def _requirement(extras: str) -> str:
    """This rxworker, as pip reads it: the folder or wheel that it was installed from, or its version."""
    try:
        origin = metadata.distribution("rxworker").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        origin = None
    url = json.loads(origin)["url"] if origin else ""
    if url.startswith("file:"):  # no index need have it
        return f"rxworker[{extras}] @ {url}"
    return f"rxworker[{extras}]>={__version__}"
