"""Where a NATS log is, and what it stores: its subjects and messages. Pure.

There are ``streams`` streams ``NAME-0``, ``NAME-1`` and so on; the id of a run decides in which one it is. A run has
these subjects in it::

    NAME.3.RUN.o        who owns it: each claim is a message, and its sequence number is the fence of the appends
    NAME.3.RUN.e        its entries: each append is a message
    NAME.3.RUN.c.N      its command N

The stream ``NAME-rows`` keeps the last message of each subject::

    NAME.config         the version of this format, and the number of streams
    NAME.row.RUN        the last values of a run, for lists; its sequence number is the revision
    NAME.beat.OWNER     the claims that a process has renewed

An append is lines of JSON: one with the numbers and, where they have changed, the last values of the run; then each
entry, as `write_line` makes it. One that is larger than a message is cut into parts, which the server stores all at
once or not at all. Last values, and commands, that a codec has made are written as base64.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Sequence
from typing import TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LogError
from rxworker.log.format import Entry, read_line, write_line
from rxworker.log.store import StoredRow
from rxworker.log.values import StoredStatus

T = TypeVar("T")

FORMAT = 1
"""The version of the streams and messages."""
STREAMS = 4
"""How many streams a new log has for its runs."""
NAME = "rxworker"
"""The name of a log whose address has none."""
NOTHING = Raw(b"null")


class Address:
    """Where a log is: ``nats://[user:password@]host[:port][,host...][/name][?replicas=3]``.

    Args:
        address: The address.

    Attributes:
        servers: The address of each server, with the credentials.
        name: The name of the log.
        replicas: How many servers keep each message, if the address contains it.

    Raises:
        ConfigurationError: This is not an address.

    >>> one = Address("nats://me:secret@a.example,b.example:4333/agents?replicas=3")
    >>> one, one.name, one.replicas, len(one.servers)
    (nats://a.example,b.example:4333/agents, 'agents', 3, 2)
    """

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        credentials, at, hosts = parts.netloc.rpartition("@")
        self.name = parts.path.strip("/") or NAME
        self._shown = f"{parts.scheme}://{hosts}/{self.name}"
        query = dict(parse_qsl(parts.query))
        replicas = query.pop("replicas", "")
        if parts.scheme not in ("nats", "tls") or not hosts or query:
            raise ConfigurationError(
                f"{self._shown!r} is not the address of a NATS log: give nats://HOST:4222/NAME, and ?replicas=3 for "
                "three replicas"
            )
        if not re.fullmatch(r"[A-Za-z0-9_-]+", self.name):
            raise ConfigurationError(f"{self.name!r} cannot be the name of a NATS log: use letters, digits, - and _")
        if replicas and replicas not in ("1", "2", "3", "4", "5"):
            raise ConfigurationError(f"replicas={replicas}: NATS keeps 1 to 5 replicas")
        self.replicas = int(replicas) if replicas else None
        self.servers = [f"{parts.scheme}://{credentials}{at}{host}" for host in hosts.split(",")]

    def __repr__(self) -> str:
        return self._shown


class Config(Struct, frozen=True):
    """The first message of a log."""

    v: int
    streams: int


class Owner(Struct, frozen=True, omit_defaults=True):
    """A claim, a release or a deletion.

    Attributes:
        run_id: The run's id.
        epoch: Raised by each claim, and by the deletion.
        owner: The owner of the run; empty after a release.
        lease: Seconds that the claim lasts.
        created: When the run began.
        row: The last values of a new run, until it has entries.
        is_deleted: Whether the run was deleted.
        watch: The subject on which its owner is notified of watchers.
    """

    run_id: str = field(name="run")
    epoch: int
    owner: str = ""
    lease: float = 0.0
    created: float = 0.0
    row: Raw = NOTHING
    is_deleted: bool = False
    watch: str = ""


class Head(Struct, frozen=True, omit_defaults=True):
    """The first line of an append, or of a part of one.

    Attributes:
        epoch: The epoch of the owner.
        after: The number of the record before it.
        last: The number of its last record.
        size: The bytes of all entries of the run so far.
        time: When it was written.
        status: The status of the run.
        row: The last values of the run, if they have changed.
        row_seq: The number of the record with which they have changed last.
        row_at: The sequence number of the message that has them, if this one has not.
        part: The number of this part, from 1, of ``parts``.
        parts: How many parts the append has; 0 if it is whole.
    """

    epoch: int
    after: int
    last: int
    size: int
    time: float
    status: StoredStatus
    row: Raw = NOTHING
    row_seq: int = 0
    row_at: int = 0
    part: int = 0
    parts: int = 0


class Listed(Struct, frozen=True, omit_defaults=True):
    """The entry of a run in a list.

    Attributes:
        order: The sequence number of its first such message; 0 in this one.
        claimed: When it was claimed, by the clock of the servers.
    """

    run_id: str = field(name="run")
    row: Raw
    status: StoredStatus
    epoch: int
    last_seq: int
    owner: str
    lease: float
    claimed: float
    created: float
    updated: float
    size: int
    sent: int
    order: int

    def stored(self, revision: int, lease_until: float) -> StoredRow:
        """As the base takes it."""
        return StoredRow(
            self.run_id, from_raw(self.row), self.status, self.epoch, self.last_seq, self.owner, lease_until,
            self.created, self.updated, self.size, revision, self.sent,
        )  # fmt: skip


class Beat(Struct, frozen=True):
    """A renewal of the claims of one process."""

    owner: str
    lease: float
    runs: dict[str, int]
    """The epoch of each."""


class SentCommand(Struct, frozen=True):
    """A command."""

    number: int
    key: str
    time: float
    body: Raw


class Part(Struct, frozen=True):
    """The first line of a part of a command."""

    part: int
    parts: int


class Place:
    """The subjects of a run.

    Attributes:
        stream: The stream that it is in.
    """

    __slots__ = ("commands", "entries", "owner", "row", "stream")

    def __init__(self, name: str, run_id: str, streams: int) -> None:
        number = zlib.crc32(run_id.encode("utf-8", "surrogatepass")) % streams
        token = subject_token(run_id)
        self.stream = f"{name}-{number}"
        self.owner = f"{name}.{number}.{token}.o"
        self.entries = f"{name}.{number}.{token}.e"
        self.commands = f"{name}.{number}.{token}.c"
        self.row = f"{name}.row.{token}"


def subject_token(text: str) -> str:
    """A text as one token of a subject.

    >>> subject_token("run-1.pay me")
    'run-1%2Epay%20me'
    """
    return quote(text, safe="", errors="surrogatepass").replace(".", "%2E") or "%"


def as_raw(data: bytes) -> Raw:
    """JSON as it is, and the output of a codec as base64."""
    return Raw(data if data[:1] == b"{" else b'"' + b64encode(data) + b'"')


def from_raw(raw: Raw) -> bytes:
    """The inverse of `as_raw`; nothing for `NOTHING`."""
    data = bytes(raw)
    if data[:1] != b'"':
        return b"" if data == b"null" else data
    try:
        return b64decode(data[1:-1], validate=True)
    except ValueError:
        return data  # damaged: its decoder raises the error


encode = msgspec.json.Encoder().encode
"""Returns a message of a Struct."""


def decode(data: bytes, type_: type[T], of: str) -> T:
    """Read a message.

    Raises:
        LogError: It is damaged, or of a newer version.
    """
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise LogError(
            f"the log of {of} has a message that cannot be read ({error}): was it written by another program?"
        ) from error


_decode_head = msgspec.json.Decoder(Head).decode


def head_of(data: bytes, of: str) -> Head:
    """The first line of an append, or of a part.

    Raises:
        LogError: It is damaged.
    """
    try:
        return _decode_head(data[: data.index(b"\n")])
    except (msgspec.MsgspecError, ValueError) as error:
        raise LogError(f"the log of {of} has an append that cannot be read ({error})") from error


def append_message(head: Head, entries: Sequence[Entry], most: int) -> bytes | list[bytes]:
    """The message of an append, or its parts, each of which has at most so many bytes."""
    first = encode(head)
    lines = [write_line(entry) for entry in entries]
    if len(first) + sum(map(len, lines)) + len(lines) < most:
        return b"\n".join([first, *lines, b""])
    return _cut(head, b"\n".join([*lines, b""]), max(most - len(first) - 100, most // 2))


def _cut(head: Head, data: bytes, size: int) -> list[bytes]:
    parts = _pieces(data, size)
    rest = Head(head.epoch, head.after, head.last, 0, head.time, head.status)
    return [
        encode(replace(head if number == len(parts) else rest, part=number, parts=len(parts))) + b"\n" + part
        for number, part in enumerate(parts, 1)
    ]


def _pieces(data: bytes, size: int) -> list[bytes]:
    return [data[start : start + size] for start in range(0, len(data), size)]


def command_message(command: SentCommand, most: int) -> bytes | list[bytes]:
    """The message of a command, or its parts."""
    data = encode(command)
    if len(data) < most:
        return data
    parts = _pieces(data, most - 100)
    return [encode(Part(number, len(parts))) + b"\n" + part for number, part in enumerate(parts, 1)]


def commands_of(messages: Iterable[bytes], run_id: str) -> list[SentCommand]:
    """The commands in messages, which begin with a whole one or a first part."""
    found: list[SentCommand] = []
    parts: list[bytes] = []
    for data in messages:
        head, newline, body = data.partition(b"\n")
        if newline:
            part = decode(head, Part, run_id)
            parts = [*parts, body] if part.part > 1 else [body]
            if part.part < part.parts:
                continue
            data = b"".join(parts)
        found.append(decode(data, SentCommand, run_id))
    return found


class Assembler:
    """Reads the appends of a run in order.

    Args:
        run_id: The run's id.
        after: The number of the last record before.

    Attributes:
        last: The number of the last record.
        is_broken: Whether a number is missing in front of the last message.
    """

    def __init__(self, run_id: str, after: int) -> None:
        self._run = run_id
        self._parts: list[bytes] = []
        self.last = after
        self.is_broken = False

    @property
    def is_partial(self) -> bool:
        """Whether more parts of an append must follow."""
        return bool(self._parts)

    def feed(self, data: bytes) -> list[Entry]:
        """The entries of a message; nothing of what was read before, or of a part that is not the last."""
        head = head_of(data, self._run)
        body = data[data.index(b"\n") + 1 :]
        self.is_broken = False
        if head.parts:
            if head.part == 1:
                self._parts = []
            if head.part != len(self._parts) + 1:
                self._parts = []
                self.is_broken = head.last > self.last
                return []
            self._parts.append(body)
            if head.part < head.parts:
                return []
            body, self._parts = b"".join(self._parts), []
        if head.last <= self.last:
            return []
        entries = [read_line(line) for line in body.splitlines()]
        while entries and entries[0].last <= self.last:
            del entries[0]
        if not entries or entries[0].first > self.last + 1:
            self.is_broken = True
            return []
        self.last = entries[-1].last
        return entries
