"""The themes of the app beside those of Textual: a light, a dark, and one with high contrast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from textual.app import App
from textual.dom import DOMNode
from textual.theme import Theme

DARK, LIGHT, CONTRAST = "rxworker-dark", "rxworker-light", "rxworker-contrast"

THEMES = (
    Theme(
        DARK,
        primary="#7aa2f7",
        secondary="#5b76b8",
        accent="#bb9af7",
        success="#7fc98f",
        warning="#e0af68",
        error="#f07a8a",
        foreground="#d6d9e0",
        background="#14161b",
        surface="#1b1e25",
        panel="#2a2f3a",
    ),
    Theme(
        LIGHT,
        primary="#2f5fc4",
        secondary="#4a6fb5",
        accent="#7a4fc0",
        success="#2a7d46",
        warning="#9a6200",
        error="#b3263f",
        foreground="#1d2230",
        background="#fdfdfc",
        surface="#f3f3f1",
        panel="#e1e2e4",
        dark=False,
    ),
    Theme(
        CONTRAST,
        primary="#5cb8ff",
        secondary="#5cb8ff",
        accent="#ffd75f",
        success="#5fff87",
        warning="#ffd75f",
        error="#ff8787",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#3a3a3a",
        boost="#262626",
        text_alpha=1.0,
        variables={
            "text-muted": "#e4e4e4",
            "text-disabled": "#bcbcbc",
            "border-blurred": "#bcbcbc",
            "footer-key-foreground": "#ffd75f",
        },
    ),
)


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
