"""``rxworker decode``: the content of a captured stream, as text or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import msgspec

from rxworker.cli.process import read_file, write_json, write_line
from rxworker.cli.providers import find_provider
from rxworker.errors import RxWorkerError
from rxworker.events import Error, ResponseEvent
from rxworker.messages import JsonObject
from rxworker.messages.usage import Usage
from rxworker.providers import Provider
from rxworker.ui.clean import clean, one_line
from rxworker.views import CalledTool, Summary, summarise

PIECE = 64 * 1024


def decode(provider: str, file: str, *, as_json: bool = False) -> int:
    """Print the content of a response.

    Its arguments are those of the command; see ``rxworker decode --help``.

    Raises:
        CommandError: There is no such provider, or the file cannot be read.
    """
    # No request is sent; the name is for error messages only.
    decoding: Provider = find_provider(provider)("unknown")
    summary = summarise(read_events(decoding, read_file(file)))
    if as_json:
        write_json(account_json(summary, decoding))
    else:
        write_line(account(summary, decoding))
    return 0


def read_events(provider: Provider, data: bytes) -> Iterator[ResponseEvent]:
    """The events of a whole body. A protocol error ends them with an error event."""
    decoder = provider.decoder()
    try:
        for at in range(0, len(data), PIECE):
            yield from decoder.feed(data[at : at + PIECE])
        yield from decoder.finish()
    except RxWorkerError as error:
        yield Error("protocol_error", error.message, kind="unknown")


def account(summary: Summary, provider: Provider) -> str:
    """The content of a response, as text to read.

    >>> from rxworker.providers import Anthropic
    >>> print(account(Summary(text="Hello", model="m"), Anthropic("m")))
    response   m
    text
      Hello
    stop       not reported
    """
    return "\n".join(_lines(summary, provider))


def _lines(summary: Summary, provider: Provider) -> Iterator[str]:
    named = [one_line(part) for part in (summary.model, summary.response_id) if part]
    yield _row("response", "  ".join(named) or provider.name)
    for title, text in {"thinking": summary.thinking, "text": summary.text, "refusal": summary.refusal}.items():
        if text:
            yield title
            yield textwrap.indent(clean(text).strip("\n"), "  ")
    for call in summary.tool_calls:
        yield _row("call", _call(call))
    for call in summary.server_tool_calls:
        yield _row("ran", _call(call) + "  (by the provider)")
    yield _row("stop", _stop(summary))
    if summary.usage is not None:
        yield _row("usage", _usage(summary.usage, provider))
    if summary.error is not None:
        code = f"{summary.error.code}: " if summary.error.code else ""
        yield _row("error", one_line(code + summary.error.message))
    if summary.truncated:
        yield _row("truncated", "the stream ended before the response did")


def _row(title: str, text: str) -> str:
    return f"{title:<10} {text}"


def _call(call: CalledTool) -> str:
    parts = (call.name, call.arguments or "{}", f"[{call.id}]" if call.id else "")
    cut = "  (cut off)" if call.aborted else ""
    return one_line(" ".join(part for part in parts if part)) + cut


def _stop(summary: Summary) -> str:
    stop = summary.stop_reason
    if stop is None:
        return "not reported"
    raw = f" ({one_line(stop.raw)})" if stop.raw else ""
    detail = f": {one_line(stop.detail)}" if stop.detail else ""
    return f"{stop.kind.value}{raw}{detail}"


def _usage(usage: Usage, provider: Provider) -> str:
    counts = provider.counts(usage)
    told = {
        "in": counts.input_tokens,
        "out": counts.output_tokens,
        "read from cache": counts.cache_read,
        "written to cache": counts.cache_creation,
    }
    shown = [f"{number:,} {title}" for title, number in told.items() if number is not None]
    return ", ".join(shown) or "not reported"


def account_json(summary: Summary, provider: Provider) -> JsonObject:
    """The summary as JSON, with tokens as the provider counts them."""
    stop, error = summary.stop_reason, summary.error
    counts = provider.counts(summary.usage or Usage())
    return {
        "text": summary.text,
        "thinking": summary.thinking,
        "tool_calls": [{"id": c.id, "name": c.name, "input": c.input} for c in summary.tool_calls],
        "stop_reason": {"kind": stop.kind.value, "raw": stop.raw} if stop else None,
        "usage": msgspec.to_builtins(counts),
        "error": {"code": _code(error.code), "message": error.message} if error else None,
        "truncated": summary.truncated,
    }


def _code(code: str | None) -> str | int | None:
    """The code as the provider sent it: one of digits alone was a number."""
    return int(code) if code is not None and code.isdecimal() else code
