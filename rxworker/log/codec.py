"""The encoding of what a log stores, by the codec of the application if there is one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.errors import LogError, describe
from rxworker.log.format import Entry, with_body
from rxworker.log.values import Command, RunInfo, RunRow, StoredStatus, read_command
from rxworker.messages.lenient_json import encode_lenient

T = TypeVar("T")


class Codec(Protocol):
    """Encrypts or compresses what a log stores. Numbers, epochs, kinds and times stay readable."""

    def encode(self, data: bytes, run_id: str, /) -> bytes:
        """Return the bytes to store in place of ``data``. The first byte must not be ``{``, which marks plain JSON."""
        ...

    def decode(self, data: bytes, run_id: str, /) -> bytes:
        """The inverse. It may be given plain JSON, which was stored before there was a codec."""
        ...


class StoredRow(NamedTuple):
    """The fields of a `RunInfo`, with the row as it is stored and its status."""

    run_id: str
    row: bytes
    status: StoredStatus
    epoch: int
    last_seq: int
    owner: str
    lease_until: float
    created: float
    updated: float
    size: int
    revision: int
    sent: int


_decode_row = msgspec.json.Decoder(RunRow).decode


class Encoding:
    """Values of a log to what is stored, and back.

    Args:
        codec: Applied to all texts.
    """

    def __init__(self, codec: Codec | None) -> None:
        self._codec = codec

    @property
    def has_codec(self) -> bool:
        """Whether what is stored is encoded."""
        return self._codec is not None

    def encode_entries(self, entries: Sequence[Entry], run_id: str) -> Sequence[Entry]:
        """Entries as they are stored."""
        if self._codec is None:
            return entries
        encode = self._codec.encode
        return [with_body(entry, encode(entry.body, run_id)) for entry in entries]

    def decode_entries(self, entries: list[Entry], run_id: str) -> list[Entry]:
        """Stored entries as they were appended.

        Raises:
            LogError: They were stored with another codec.
        """
        if self._codec is None and all(entry.body[:1] == b"{" for entry in entries):
            return entries
        return [with_body(entry, self._decode(entry.body, run_id)) for entry in entries]

    def encode(self, value: Struct, run_id: str) -> bytes:
        """A row, a command, or what is kept of a fold, as it is stored."""
        data = encode_lenient(value)
        if self._codec is None:
            return data
        try:
            return self._codec.encode(data, run_id)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit in a task would end the event loop, and all runs with it
            text = f"the codec cannot encode what is to be stored of {run_id}: {describe(error)}"
            raise LogError(text) from error

    def decode_info(self, stored: StoredRow, *, is_strict: bool = False) -> RunInfo:
        """A stored run without its records.

        If its values cannot be decoded, its ``error`` states why: one such run must not hide the others.

        Args:
            stored: The run as it is stored.
            is_strict: Whether to raise instead.

        Raises:
            LogError: Its values cannot be decoded, and ``is_strict`` is given.
        """
        run, data, status = stored[:3]
        row, why = RunRow(status), ""
        if data:
            try:
                row = replace(self.decode(data, run, _decode_row), status=status)
            except LogError as error:
                if is_strict:
                    raise
                why = str(error)
                row = RunRow(status, reason=why)
        return RunInfo(run, row, *stored[3:], why)

    def decode_command(self, run_id: str, number: int, stored: float, data: bytes) -> Command:
        """A stored command, with its number and the time when it was stored.

        Raises:
            LogError: It was stored with another codec.
        """
        command = self.decode(data, run_id, read_command)
        return replace(command, number=number, time=stored)

    def decode(self, data: bytes, run_id: str, decode: Callable[[bytes], T]) -> T:
        """What `encode` has made.

        Raises:
            LogError: It was stored with another codec, or is damaged.
        """
        try:
            return decode(self._decode(data, run_id))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise LogError(
                f"what is stored of {run_id} is damaged: {error}. Restore it from a backup, or delete the run"
            ) from error

    def _decode(self, data: bytes, run_id: str) -> bytes:
        if self._codec is not None:
            try:
                return self._codec.decode(data, run_id)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever a library for encryption raises
                raise LogError(
                    f"the codec cannot decode what is stored of {run_id}: {describe(error)}. Open the log with the "
                    "codec and the key that it was written with"
                ) from error
        if data[:1] != b"{":
            raise LogError(f"what is stored of {run_id} was encoded: open the log with its codec=")
        return data
