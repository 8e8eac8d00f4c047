"""Stored runs as Durable Streams: their records, and the parts of user interface protocols.

The offset of a record is the epoch of its owner and its number, ``%016d_%016d``. Records that an owner has lost with
its machine, and that a later owner has replaced, have another epoch: a client that has read them gets a 410 and reads
again from the beginning. So no client continues after a record that is not in the log.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass
from typing import Protocol, TypeAlias

from msgspec import Struct

from rxworker.errors import LocalProtocolError, LogError
from rxworker.events import Record
from rxworker.hub.history import expand, merged
from rxworker.log import EventLog, RunInfo
from rxworker.log.format import record_of
from rxworker.log.values import ENDED
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols import encode_record
from rxworker.protocols.ag_ui import AgUiEncoder
from rxworker.protocols.ui_messages import UiMessageEncoder
from rxworker.ui.web.http.responses import ApiError

START = f"{0:016d}_{0:016d}"
"""The offset of the beginning of a stream."""

JSON = "application/json"

PAGE_BYTES = 1 << 20
"""A response has no further message after so many bytes."""

EncodeParts: TypeAlias = Callable[[Record], Sequence[bytes]]
"""Encodes the next record of a run, which may give no parts."""


class StreamPage(Struct, frozen=True):
    """Messages of a stream.

    Attributes:
        messages: The messages; of a JSON stream, each is a JSON value.
        next: The offset after them.
        is_up_to_date: Whether the stream has no more messages at present.
        is_closed: Whether it will never have more.
    """

    messages: Sequence[bytes]
    next: str
    is_up_to_date: bool = True
    is_closed: bool = False


class MessageStream(Protocol):
    """Messages with offsets.

    Attributes:
        name: Identifies the stream.
        content_type: The media type of the messages.
    """

    name: str
    content_type: str

    async def read(self, offset: str) -> StreamPage:
        """The messages after an offset.

        Raises:
            ApiError: There is no such stream, or it does not have this offset.
        """
        ...

    async def tail(self) -> StreamPage:
        """The end of the stream.

        Raises:
            ApiError: There is no such stream.
        """
        ...

    async def wait(self, offset: str) -> bool:
        """Wait for a message after an offset, or the end of the stream. ``False`` if neither can follow."""
        ...


@dataclass(eq=False)
class LogStream:
    """A stored run as a stream. It is closed when the run has ended, or is paused, and has no annotations after that.

    Args:
        log: The log.
        run_id: The run's id.
        fold: Returns a function that encodes the records of the run from the first; by default each record is a
            message, as `encode_record` makes it.
        name: Identifies the stream; by default the run's id.
        redact: Removes secrets from a message.
        content_type: The media type of the messages.
    """

    log: EventLog
    run_id: str
    _: KW_ONLY
    fold: Callable[[], EncodeParts] | None = None
    name: str = ""
    redact: Callable[[bytes], bytes] | None = None
    content_type: str = JSON

    def __post_init__(self) -> None:
        self.name = self.name or self.run_id
        self._encode: EncodeParts = _encode_alone
        self._at: tuple[int, int] | None = None  # which the next read may continue after

    async def read(self, offset: str) -> StreamPage:
        """The messages after an offset.

        Raises:
            ApiError: There is no such run, or it does not have this offset.
        """
        return await self._unless_deleted(self._read(offset))

    async def _read(self, offset: str) -> StreamPage:
        info = await self._info()  # before the entries, so that an ended run has no more of them
        messages: list[bytes] = []
        size, at = 0, read_offset(offset)
        epoch, after = at
        is_found, start = self._at == at, after
        if not is_found:
            is_found = at == (0, 0)
            self._encode = _encode_alone if self.fold is None else self.fold()
            start = 0 if self.fold is not None else max(after - 1, 0)
        self._at = None
        last = info.row.end or info.last_seq
        entries = self.log.read(self.run_id, start)
        async with aclosing(entries):
            async for entry in entries:
                if entry.first > last and info.status in ENDED:
                    break
                record = record_of(entry, self.run_id)
                if entry.first <= after <= entry.last and entry.epoch == epoch:
                    is_found = True
                for known in _known(record, after):
                    self._encode(known)
                for one in expand(record, after):
                    parts = self._encode(one)
                    messages += parts if self.redact is None else map(self.redact, parts)
                    size += sum(map(len, parts))
                    at = entry.epoch, one.seq
                    if size >= PAGE_BYTES:
                        break
                if size >= PAGE_BYTES:
                    break
        if not is_found:
            message = (
                "the stream does not have this offset: its end was lost with a machine, and the run was recovered; "
                "read from -1"
            )
            raise ApiError(410, "gone_offset", message)
        self._at = at
        is_up_to_date = at[1] >= last
        return StreamPage(messages, write_offset(*at), is_up_to_date, is_up_to_date and info.status in ENDED)

    async def tail(self) -> StreamPage:
        """The end of the stream.

        Raises:
            ApiError: There is no such run.
        """
        return await self._unless_deleted(self._tail())

    async def _tail(self) -> StreamPage:
        info = await self._info()
        at = 0, 0
        async for entry in self.log.read(self.run_id, max((info.row.end or info.last_seq) - 1, 0)):
            at = entry.epoch, entry.last
            if info.row.end:
                break
        return StreamPage((), write_offset(*at), is_closed=info.status in ENDED)

    async def wait(self, offset: str) -> bool:
        """Wait for a record after an offset, or the end of the run. ``False`` if the log is closed."""
        _, after = read_offset(offset)
        try:
            async with aclosing(self.log.pages(self.run_id, after)) as pages:
                async for _ in pages:
                    return True
            await self.log.info(self.run_id)  # raises if the log was closed
        except LogError:
            return True  # the next read reports it: the run was deleted
        except LocalProtocolError:
            return False
        return True

    async def _unless_deleted(self, page: Awaitable[StreamPage]) -> StreamPage:
        """A page of the run, which may be deleted while it is read."""
        try:
            return await page
        except LogError:
            await self._info()
            raise

    async def _info(self) -> RunInfo:
        info = await self.log.info(self.run_id)
        if info is None or info.status == "deleted":
            raise ApiError(404, "no_run", "there is no such run: it was deleted, or never stored")
        return info


def _encode_alone(record: Record) -> Sequence[bytes]:
    return (encode_record(record),)


def _known(record: Record, after: int) -> Iterator[Record]:
    """The records of an entry up to a number, in as few as possible: what they give is not sent."""
    if record.seq <= after:
        yield merged(record, 0)
    elif record.first <= after:
        yield from expand(record, until=after)


def read_offset(offset: str) -> tuple[int, int]:
    """The epoch and the number of an offset."""
    epoch, _, number = offset.partition("_")
    return int(epoch), int(number)


def write_offset(epoch: int, number: int) -> str:
    """The offset of an epoch and a number."""
    return f"{epoch:016d}_{number:016d}"


FOLDS: Mapping[str, Callable[[str, Mapping[str, str]], AgUiEncoder | UiMessageEncoder] | None] = {
    "": None,
    "/ag-ui": lambda run, query: AgUiEncoder(run, run, protocol=query.get("protocol"), snapshot=True),
    "/ui": lambda run, _: UiMessageEncoder(run),
}
"""The streams of a run: its records, and the parts of user interface protocols."""


def run_stream(
    log: EventLog,
    run_id: str,
    view: str = "",
    query: Mapping[str, str] | None = None,
    redact: Callable[[bytes], bytes] | None = None,
) -> LogStream:
    """A stream of a stored run.

    Args:
        log: The log.
        run_id: The run's id.
        view: A key of `FOLDS`.
        query: The parameters of the request: AG-UI has ``protocol``, the version that the client supports.
        redact: Removes secrets from a message.
    """
    given = query or {}
    make = FOLDS[view]
    protocol = given.get("protocol", "") if view == "/ag-ui" else ""
    name = f"{run_id}{view}{protocol and '@'}{protocol}"
    if make is None:
        return LogStream(log, run_id, name=name, redact=redact)

    def fold() -> EncodeParts:
        encoder = make(run_id, given)
        return lambda record: [encode_lenient(part) for part in encoder.feed(record)]

    return LogStream(log, run_id, fold=fold, name=name, redact=redact)
