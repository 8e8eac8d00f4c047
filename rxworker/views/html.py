"""A run as static HTML, for notebooks and reports: everything is escaped, and there is no script."""

from __future__ import annotations

import json
from html import escape

from rxworker.events import BlockType
from rxworker.messages import ToolResult
from rxworker.views.amounts import duration
from rxworker.views.changes import ViewAbort, ViewCut, ViewPause
from rxworker.views.run_view import BlockView, CallView, RunView

MAX_ITEMS = 100
"""How many items are drawn, the last ones."""

MAX_TEXT = 20_000
"""How many characters of a text are drawn, the last ones."""

# The text keeps to its own direction, so that marks in it cannot reorder what surrounds it.
PRE = 'style="white-space:pre-wrap;overflow-wrap:anywhere;unicode-bidi:isolate;margin:.3em 0;font:inherit"'
SIGNS = {"done": "✓", "failed": "✗", "refused": "✗", "stopped": "✗", "retracted": "✗"}


def view_html(view: RunView) -> str:
    """Draw the view of a run so far: its numbers, its input, and its items.

    Args:
        view: The run.

    >>> from rxworker.events import Record, TextDelta
    >>> view = RunView()
    >>> _ = view.step(Record(seq=1, run_id="run-1", turn=1, attempt=1, time=5.0, event=TextDelta(0, "a < b")))
    >>> "a &lt; b" in view_html(view)
    True
    """
    items = [item for item in view.items if isinstance(item, BlockView)]
    left_out = len(items) - MAX_ITEMS
    parts = [f"<div><small>{escape(_head(view))}</small></div>"]
    last = None if view.conversation is None else view.conversation.last
    if last is not None and last.role == "user" and last.text:
        parts.append(f"<div><b>{_text(last.text)}</b></div>")
    if left_out > 0:
        parts.append(f"<div><small>{left_out} earlier items</small></div>")
    parts += map(_item, items[-MAX_ITEMS:])
    parts.append(_end(view))
    return f'<div class="rxworker-run">{"".join(parts)}</div>'


def _head(view: RunView) -> str:
    state, usage = view.state, view.state.usage
    counts = ((state.turns, "turn"), (state.all_tool_calls, "tool call"))
    shown = [state.status, *(f"{n} {noun}{'' if n == 1 else 's'}" for n, noun in counts)]
    if usage.total_tokens:
        shown.append(f"{usage.total_tokens:,} tokens")
    return " · ".join([*shown, duration(view.seconds)])


def _item(item: BlockView) -> str:
    indent = f"margin-left:{1.5 * len(item.scope.path):g}em"
    if item.stage == "retracted":
        indent += ";opacity:.5"
    body = _call(item) if isinstance(item, CallView) else _block(item)
    return f'<div style="{indent}">{body}</div>'


def _block(item: BlockView) -> str:
    if item.block.block_type is BlockType.THINKING:
        return f"<details><summary><i>thinking</i></summary>{_text(item.text)}</details>"
    return _text(item.text or item.kind)


def _call(item: CallView) -> str:
    given = item.text if item.call is None else item.call.input
    arguments = given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
    took = f" · {duration(item.seconds)}" if item.seconds else ""
    about = f" · {item.progress}" if item.progress is not None and item.result is None else ""
    sign = SIGNS.get(item.stage, "…")
    summary = f"{sign} <code>{escape(item.block.tool)}</code> {escape(item.stage + took + about)}"
    result = "" if item.result is None else f"<hr>{_text(_result(item.result))}"
    return f"<details><summary>{summary}</summary>{_text(arguments)}{result}</details>"


def _result(result: ToolResult) -> str:
    if isinstance(result.content, str):
        return result.content
    others = [type(part).__name__ for part in result.content if not hasattr(part, "text")]
    return "\n".join(filter(None, [result.text, *(f"[{name}]" for name in others)]))


def _end(view: RunView) -> str:
    match view.end:
        case ViewPause(reason=reason, hook=hook):
            kind, why = "paused", reason or hook
        case ViewAbort(cause=kind, reason=why):
            pass
        case ViewCut(reason=why):
            kind = "cut"
        case _:
            return ""
    return f"<div><b>{escape(kind)}</b> {_text(why)}</div>"


def _text(text: str) -> str:
    shown = text[-MAX_TEXT:]
    cut = "" if len(shown) == len(text) else f"[{len(text) - MAX_TEXT:,} characters before] "
    # Half a character cannot be encoded.
    shown = (cut + shown).encode("utf-8", "replace").decode()
    return f"<pre {PRE}>{escape(shown)}</pre>"
