"""The themes of the app beside those of Textual: a light, a dark, and one with high contrast."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
from textual.app import App
from textual.dom import DOMNode
from textual.theme import Theme

DARK, LIGHT, CONTRAST = "rxworker-dark", "rxworker-light", "rxworker-contrast"

THEMES = msgspec.json.decode(Path(__file__).with_name("themes.json").read_bytes(), type=tuple[Theme, ...])


def app_of(node: DOMNode) -> App[object]:
    """Return the app of a widget or a screen, with its type."""
    return cast("App[object]", node.app)  # pyright: ignore[reportUnknownMemberType] - a generic App


def plain_colours(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a theme that are colours by themselves, which Rich can draw.

    >>> plain_colours({"primary": "#5CB8FF", "text-muted": "auto 60%"})
    {'primary': '#5CB8FF'}
    """
    return {
        name: value[:7]  # without the alpha
        for name, value in variables.items()
        if value.startswith("#") and len(value) in (7, 9)
    }
