"""What the mappers of session files share: sessions, whose prompts begin runs. Pure."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, JsonObject, Message
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.values import object_of, text

logger = logging.getLogger("rxworker.tap")
KEPT = 50_000
"""How many characters of the conversation before a run are kept with it, from its end."""


def time_of(value: object) -> float | None:
    """The seconds since the epoch of a time as ISO 8601 writes it; ``None`` for anything else.

    >>> time_of("1970-01-01T00:00:01.500Z"), time_of(None)
    (1.5, None)
    """
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


class Earlier:
    """The texts of a conversation up to now, within a bound, for the run that comes next.

    So the cost of a session grows with its length, and not with its square.
    """

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._size = 0

    def add(self, message: Message) -> None:
        """Add a message; the oldest ones are dropped above the bound."""
        if not message.text:
            return
        self._messages.append(message)
        self._size += len(message.text)
        while self._size > KEPT and len(self._messages) > 1:
            self._size -= len(self._messages.pop(0).text)

    def replace(self, message: Message) -> None:
        """Begin again with a message that stands for all others."""
        self._messages, self._size = [], 0
        self.add(message)

    def conversation(self) -> Conversation:
        """The conversation."""
        return Conversation(tuple(self._messages))


class Session(Struct):
    """A session, or a sub-agent with a file of its own.

    Attributes:
        program: The name of the program.
        key: What the names of its runs begin with.
        labels: The labels of its runs.
        run: Its last run; a new one before the first prompt.
        earlier: The conversation before the next run.
        ended: The last events of the runs before.
    """

    program: str
    key: str
    labels: dict[str, str]
    run: RunBuilder = field(default_factory=RunBuilder)
    earlier: Earlier = field(default_factory=Earlier)
    ended: list[Tapped] = []

    def begin(self, name: str, *given: Message, inside: RunBuilder | None = None) -> None:
        """Begin another run, which ends the one before it; by default one that is not inside a call."""
        self.run.end()
        self.ended += self.run.take()
        time, self.run = self.run.time, inside or RunBuilder(self.program, f"{self.key}-{name}")
        self.run.time = time
        labels = None if inside else self.labels
        self.run.start(given or None, before=self.earlier.conversation(), labels=labels)
        for message in given:
            self.earlier.add(message)

    def take(self) -> list[Tapped]:
        """What was built since this was called last."""
        ended, self.ended = self.ended, []
        return [*ended, *self.run.take()]


S = TypeVar("S", bound=Session)


def labels_of(conversation: str, folder: object) -> dict[str, str]:
    """The labels of the runs of a session, as far as they are known."""
    labels = {CONVERSATION: conversation, "project": Path(text(folder)).name}
    return {name: value for name, value in labels.items() if value}


class SessionMapper(ABC, Generic[S]):
    """Makes runs of the lines of session files.

    Args:
        name: The name of the program in lists; by default the usual one.

    Attributes:
        NAME: The usual name of the program.
        FOLDER: Where it keeps its session files.
    """

    NAME: ClassVar[str]
    FOLDER: ClassVar[str]

    def __init__(self, name: str = "") -> None:
        self._name = name or self.NAME
        self._sessions: dict[str, S] = {}

    def feed(self, item: tuple[str, str], /) -> Sequence[Tapped]:
        """The events of a line. One that is not JSON is skipped, and reported to the log without its text."""
        path, written = item
        try:
            line = object_of(msgspec.json.decode(written))
        except msgspec.DecodeError as error:
            logger.warning(
                "%s: a line of %d characters is skipped, since it is not JSON: %s", path, len(written), error
            )
            return ()
        session = self._session(path, line)
        if session is None:
            return ()
        self._read(session, line)
        return session.take()

    def _read(self, session: S, line: JsonObject) -> None:
        session.run.time = time_of(line.get("timestamp"))
        self._take(session, line)

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:  # noqa: ARG002 - as a mapper has it
        """Nothing: a session has no end."""
        return ()

    @abstractmethod
    def _session(self, path: str, line: JsonObject) -> S | None:
        """The session of a line; ``None`` if the line is not read."""

    @abstractmethod
    def _take(self, session: S, line: JsonObject) -> None:
        """Take a line."""
