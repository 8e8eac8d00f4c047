"""``rxworker decode``: what a captured stream says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rxworker.cli.account import account, account_json
from rxworker.cli.failure import MISUSED, CommandError
from rxworker.cli.output import read_input, write_json, write_line
from rxworker.cli.provider import find_provider
from rxworker.errors import RxWorkerError
from rxworker.events import Error, ResponseEvent
from rxworker.providers import Provider
from rxworker.views import summarise

PIECE = 64 * 1024


def decode(provider: str, file: str, *, as_json: bool = False) -> int:
    """Print what the body of a response says.

    Args:
        provider: Whose protocol it is.
        file: Where it is; ``-`` is standard input.
        as_json: Whether to print one JSON object, or an account for people.

    Raises:
        CommandError: There is no such provider, or the file cannot be read.
    """
    # No model is asked; the name is for error texts only.
    decoding: Provider = find_provider(provider)("unknown")
    summary = summarise(read_events(decoding, _read(file)))
    if as_json:
        write_json(account_json(summary, decoding))
    else:
        write_line(account(summary, decoding))
    return 0


def read_events(provider: Provider, data: bytes) -> Iterator[ResponseEvent]:
    """The events of a whole body. What is against the protocol ends them with an error event."""
    decoder = provider.decoder()
    try:
        for at in range(0, len(data), PIECE):
            yield from decoder.feed(data[at : at + PIECE])
        yield from decoder.finish()
    except RxWorkerError as error:
        yield Error("protocol_error", error.message, kind="unknown")


def _read(file: str) -> bytes:
    try:
        return read_input() if file == "-" else Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise CommandError(f"cannot read {file!r}: {reason}", MISUSED) from error


__all__ = ["decode", "read_events"]
