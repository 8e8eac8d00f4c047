"""The lines of session files, such as those of Claude Code and Codex: those that are there, and then what is appended.

Theory of operation. The folder is watched before it is read, so that nothing is missed in between. Of each file the
reader knows how far it has read. A file that has become shorter, or is another one of the same name, is read again from
its beginning, without the lines that it has given already. Requires the extra ``tap``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from pathlib import Path

from rxworker.errors import ConfigurationError

ENDING = ".jsonl"
CHUNK = 1 << 18
"""How many bytes are read at once."""


class _File:
    """How far a file is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._inode = self._offset = 0
        self._rest = b""
        self._given: set[int] = set()

    def lines(self) -> Iterator[str]:
        """The lines that are new. One without its end waits until that is written."""
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
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    key = hash(line)
                    if line.strip() and key not in self._given:
                        self._given.add(key)
                        yield line.decode(errors="replace")


async def session_files(
    folder: str | Path, *, since: float | None = None, follow: bool = True
) -> AsyncGenerator[tuple[str, str], None]:
    r"""The lines of the session files of a folder and of its folders, each with the path of its file.

    First those that are there, by the times of the files, and then each line as it is written. A line that is not
    finished waits for its end. A line is given once, also of a file that was replaced.

    Args:
        folder: The folder, such as ``~/.claude/projects`` or ``~/.codex/sessions``.
        since: Files that were changed before are left out until they change; in seconds since the epoch.
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
    async with aclosing(_changes(root, follow)) as changes:
        changed = asyncio.ensure_future(anext(changes, None))
        try:
            await asyncio.sleep(0)  # from here on it is watched
            paths = [str(path) for moment, path in sorted(_found(root)) if since is None or moment >= since]
            while True:
                for path in paths:
                    for line in files.setdefault(path, _File(Path(path))).lines():
                        yield path, line
                found = await changed
                if found is None:
                    return
                paths = found
                changed = asyncio.ensure_future(anext(changes, None))
        finally:
            changed.cancel()
            await asyncio.wait([changed])


def _found(root: Path) -> Iterator[tuple[float, Path]]:
    for path in root.rglob(f"*{ENDING}"):
        with suppress(OSError):  # it was deleted
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
        paths = {path for _, path in found if path.endswith(ENDING)}
        for _, path in found:  # what was written into a new folder before it was watched
            paths.update(str(each) for _, each in _found(Path(path)))
        yield sorted(paths)
