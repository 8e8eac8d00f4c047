"""The encoding of what a log stores, by the codec of the application if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from rxworker.errors import LogError
from rxworker.log.entry import Entry, with_body
from rxworker.log.values import Command, RunInfo, RunRow, StoredStatus
from rxworker.messages.lenient_json import encode_lenient


class Codec(Protocol):
    """Encrypts or compresses what a log stores. Numbers, epochs, kinds and times stay readable."""

    def encode(self, data: bytes, run: str, /) -> bytes:
        """Return the bytes to store in place of ``data``. The first byte must not be ``{``, which marks plain JSON."""
        ...

    def decode(self, data: bytes, run: str, /) -> bytes:
        """The inverse. It may be given plain JSON, which was stored before there was a codec."""
        ...


StoredRow: TypeAlias = tuple[
    str, bytes, StoredStatus, int, int, str, float, float, float, int, int, int
]
"""The fields of a `RunInfo`, with the row as it is stored and its status."""

_BRACE = ord("{")
_decode_row = msgspec.json.Decoder(RunRow).decode
_decode_command = msgspec.json.Decoder(Command).decode


class Encoding:
    """Values of a log to what is stored, and back.

    Args:
        codec: Applied to all texts.
    """

    def __init__(self, codec: Codec | None) -> None:
        self._codec = codec

    def encode_entries(self, entries: Sequence[Entry], run: str) -> Sequence[Entry]:
        """Entries as they are stored."""
        if self._codec is None:
            return entries
        encode = self._codec.encode
        return [with_body(entry, encode(entry.body, run)) for entry in entries]

    def decode_entries(self, entries: list[Entry], run: str) -> list[Entry]:
        """Stored entries as they were appended.

        Raises:
            LogError: They were stored with another codec.
        """
        if self._codec is None and all(entry.body[0] == _BRACE for entry in entries):
            return entries
        return [with_body(entry, self._decode(entry.body, run)) for entry in entries]

    def encode_row(self, row: RunRow, run: str) -> bytes:
        """A row as it is stored."""
        return self._encode(encode_lenient(row), run)

    def decode_info(self, stored: StoredRow) -> RunInfo:
        """A stored run without its records.

        Raises:
            LogError: It was stored with another codec.
        """
        run, data, status, epoch, last_seq, owner, lease, created, updated, size, revision, sent = (
            stored
        )
        row = RunRow(status)
        if data:
            row = replace(_decode_row(self._decode(data, run)), status=status)
        return RunInfo(
            run, row, epoch, last_seq, owner, lease, created, updated, size, revision, sent
        )

    def encode_command(self, command: Command, run: str) -> bytes:
        """A command as it is stored."""
        return self._encode(encode_lenient(command), run)

    def decode_command(self, run: str, number: int, stored: float, data: bytes) -> Command:
        """A stored command, with its number and the time when it was stored.

        Raises:
            LogError: It was stored with another codec.
        """
        command = _decode_command(self._decode(data, run))
        return replace(command, number=number, time=stored)

    def _encode(self, data: bytes, run: str) -> bytes:
        return data if self._codec is None else self._codec.encode(data, run)

    def _decode(self, data: bytes, run: str) -> bytes:
        if self._codec is not None:
            try:
                return self._codec.decode(data, run)
            except Exception as error:  # whatever a library for encryption raises
                why = f"{type(error).__name__}: {error}".removesuffix(": ")
                raise LogError(
                    f"the codec cannot decode what is stored of {run}: {why}. Open the log with the codec and the key that it was written with"
                ) from error
        if data[:1] != b"{":
            raise LogError(f"what is stored of {run} was encoded: open the log with its codec=")
        return data
