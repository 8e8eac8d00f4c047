"""Session files, such as those of Claude Code and Codex: their lines, and the sessions whose prompts begin runs.

Theory of operation. The lines that are there come first, and then what is appended. The folder is watched before it is
read, so that nothing is missed in between. Of each file the reader knows how far it has read. A file that has become
shorter, or is another one of the same name, is read again from its beginning, without the lines that it has given
already. The files of the sub-agents of a session, and what is known of each of them, lie in a folder beside that of the
session: what is new in all of them comes in the order of its times. Requires the extra ``tap``.
"""

from __future__ import annotations

import asyncio
import logging
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, suppress
from datetime import datetime
from heapq import merge
from operator import itemgetter
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from rxworker.errors import ConfigurationError
from rxworker.log.values import CONVERSATION
from rxworker.messages import Conversation, JsonObject, Message
from rxworker.tap.builder import Mapper, RunBuilder, Tapped
from rxworker.tap.sources.values import object_of, text

ABOUT = ".meta.json"
"""The ending of the name of a file with what is known of a sub-agent: one value, which is replaced."""
ENDINGS = (".jsonl", ABOUT)
TIME = re.compile(r'"timestamp": ?"([^"]*)"')
CHUNK = 1 << 18
"""How many bytes are read at once."""


class _File:
    """How far a file is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._offset = 0
        self._rest = b""
        self._end = b"\n" if path.name.endswith(ABOUT) else b""
        self._given: set[int] = set()

    def lines(self) -> Iterator[tuple[str, str, str]]:
        """The lines that are new, with the time of each, or of the one before, and the path.

        One without its end waits until that is written.
        """
        time = ""
        try:
            file = self._path.open("rb")
        except OSError:  # it was deleted
            return
        with file:
            about = self._path.stat()
            if about.st_ino != self._inode or about.st_size < self._offset:
                self._inode, self._offset, self._rest = about.st_ino, 0, b""
            file.seek(self._offset)
            while data := file.read(CHUNK):
                self._offset += len(data)
                *lines, self._rest = (self._rest + data + self._end).split(b"\n")
                for line in lines:
                    key = hash(line)
                    if line.strip() and key not in self._given:
                        self._given.add(key)
                        text = line.decode(errors="replace")
                        time = found[1] if (found := TIME.search(text)) else time
                        yield time, str(self._path), text


async def session_files(
    folder: str | Path, *, since: float | None = None, follow: bool = True
) -> AsyncGenerator[tuple[str, str], None]:
    r"""The lines of the session files of a folder and of its folders, each with the path of its file.

    First those that are there, by the times of the files, and then each line as it is written. A line that is not
    finished waits for its end. A line is given once, also of a file that was replaced.

    Args:
        folder: The folder, such as ``~/.claude/projects`` or ``~/.codex/sessions``.
        since: Sessions that were changed before are left out until they change; in seconds since the epoch.
        follow: Whether to wait for what is appended.

    Raises:
        ConfigurationError: There is no such folder, or the extra ``tap`` is not installed.

    Example:
        >>> async def main(folder: str) -> None:
        ...     (Path(folder) / "s.jsonl").write_text('{"type": "user"}\n{"type": "as')
        ...     async for path, line in session_files(folder, follow=False):
        ...         print(Path(path).name, line)
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(folder))
        s.jsonl {"type": "user"}
    """
    root = Path(folder).expanduser().resolve()  # noqa: ASYNC240 - as changes are reported; reading is short
    if not root.is_dir():
        raise ConfigurationError(f"there is no folder {str(root)!r}: give the folder of the session files")
    files: dict[str, _File] = {}
    times = itemgetter(0)
    async with aclosing(_changes(root, follow)) as changes:
        changed = asyncio.ensure_future(anext(changes, None))
        try:
            await asyncio.sleep(0)  # from here on it is watched
            sessions = _by_session(sorted(_found(root)), since)
            while True:
                for paths in sessions:
                    new = [files.setdefault(str(path), _File(path)).lines() for path in paths]
                    for _, path, line in merge(*new, key=times):
                        yield path, line
                found = await changed
                if found is None:
                    return
                sessions = _by_session([(0.0, Path(path)) for path in found])
                changed = asyncio.ensure_future(anext(changes, None))
        finally:
            changed.cancel()
            await asyncio.wait([changed])


def _by_session(files: list[tuple[float, Path]], since: float | None = None) -> list[list[Path]]:
    """The files of each session, of which one has changed since then, in their order."""
    sessions = defaultdict[Path, list[tuple[float, Path]]](list)
    for moment, path in files:
        is_inside = path.parent.name == "subagents"
        sessions[path.parent.parent if is_inside else path.with_suffix("")].append((moment, path))
    return [[path for _, path in found] for found in sessions.values() if since is None or max(found)[0] >= since]


def _found(root: Path) -> Iterator[tuple[float, Path]]:
    for path in root.rglob("*.json*"):
        with suppress(OSError):  # it was deleted
            if path.name.endswith(ENDINGS):
                yield path.stat().st_mtime, path


async def _changes(root: Path, follow: bool) -> AsyncGenerator[list[str], None]:
    if not follow:
        return
    try:
        from watchfiles import awatch  # pyright: ignore[reportUnknownVariableType] - a type of anyio
    except ImportError as error:
        what = "following session files needs an extra: pip install '/path/to/the/checkout[tap]', or give follow=False"
        raise ConfigurationError(what) from error
    async for found in awatch(root, watch_filter=None, debounce=200, step=20):
        paths = {path for _, path in found if path.endswith(ENDINGS)}
        for _, path in found:  # what was written into a new folder before it was watched
            paths.update(str(each) for _, each in _found(Path(path)))
        yield sorted(paths)


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


class SessionMapper(Mapper[tuple[str, str]], ABC, Generic[S]):
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

    @abstractmethod
    def _session(self, path: str, line: JsonObject) -> S | None:
        """The session of a line; ``None`` if the line is not read."""

    @abstractmethod
    def _take(self, session: S, line: JsonObject) -> None:
        """Take a line."""
