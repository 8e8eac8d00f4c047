"""A recorded answer in place of a connection, for trying things out without one."""

from __future__ import annotations

from pathlib import Path

import reactivex
from reactivex import Observable

from rxworker.errors import ConfigurationError
from rxworker.providers.base import HttpRequest


class RecordingTransport:
    """Answers every request with the same bytes, whatever it asks.

    Args:
        body: The body of an answer, as it came over the wire.
        chunk: How many bytes come at once; ``None``: all of them.
    """

    def __init__(self, body: bytes, *, chunk: int | None = None) -> None:
        self.body = body
        self.chunk = chunk or max(len(body), 1)

    def send(self, request: HttpRequest) -> Observable[bytes]:
        """The recorded body, at once.

        >>> from rxworker.providers.base import HttpRequest
        >>> got = []
        >>> _ = RecordingTransport(b"abc", chunk=2).send(HttpRequest("", {}, b"")).subscribe(got.append)
        >>> got
        [b'ab', b'c']
        """
        del request
        cuts = range(0, len(self.body), self.chunk)
        return reactivex.from_iterable([self.body[at : at + self.chunk] for at in cuts])


def from_recording(path: str | Path, *, chunk: int | None = None) -> RecordingTransport:
    """A transport that answers with what the file holds.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    try:
        return RecordingTransport(Path(path).read_bytes(), chunk=chunk)
    except OSError as error:
        raise ConfigurationError(f"cannot read the recording {path}: {error.strerror}") from error
