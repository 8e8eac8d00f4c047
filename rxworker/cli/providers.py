"""Providers by their names on the command line."""

from __future__ import annotations

import difflib

from rxworker.cli.process import MISUSED, CommandError
from rxworker.providers import PROVIDERS
from rxworker.providers.service import Service
from rxworker.ui.clean import one_line


def provider_names() -> str:
    """The names that `find_provider` knows, in one line.

    >>> "anthropic" in provider_names()
    True
    """
    return ", ".join(_known())


def find_provider(name: str) -> type[Service]:
    """The provider of that name; hyphens are read as underscores.

    Raises:
        CommandError: The name is unknown.

    >>> find_provider("openai-chat").__name__
    'OpenAIChat'
    """
    found = PROVIDERS.get(name.lower().replace("-", "_"))
    if found is None:
        close = difflib.get_close_matches(name.lower().replace("_", "-"), _known(), 1, 0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        raise CommandError(f"unknown provider {one_line(name, 60)!r}: {hint}there are {provider_names()}", MISUSED)
    return found


def _known() -> list[str]:
    return [name.replace("_", "-") for name in PROVIDERS]
