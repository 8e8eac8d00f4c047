"""Drawing the text of a run."""

from __future__ import annotations

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from rxworker.cli.page import STYLES
from rxworker.cli.transcript import Transcript
from rxworker.ui.clean import clean


def draw_text(
    transcript: Transcript, question: str, console: Console, width: int, height: int
) -> Panel:
    """The end of the text, as much as fits.

    Args:
        transcript: What was said.
        question: What was asked.
        console: Where it will be shown.
        width: Columns of the panel.
        height: Lines of the panel.
    """
    text = Text.assemble((f"{clean(question)}\n", "bold"))
    for span in transcript.spans:
        text.append("\n" + clean(span.text).strip("\n"), style=STYLES[span.voice])
    room = max(1, height - 2)
    lines = text.wrap(console, max(1, width - 4))
    return Panel(
        Text("\n").join(lines[-room:]), title="text", title_align="left", width=width, height=height
    )


__all__ = ["draw_text"]
