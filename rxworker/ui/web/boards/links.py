"""Read-only links: each shows one run, or one dashboard, to every client with its token, and can be revoked.

Theory of operation. A token is the id of its link and 256 random bits. Of the bits a digest is kept alone, with the log
if there is one, so that a link holds after a restart and on all servers of the log. The page has the token in the
fragment of its address, which a browser sends to no server, and sends it as a header, which no access log has.

A request with the token of a link has no other rights: it reads what `READABLE` names, and everything else is refused,
also what is added to the server later. A link to a call delivers its result, and is revoked then. Links are read again
every second while a request of one is open; the requests of a link that was revoked, or has ended, are cancelled. If
they cannot be read, all are.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from math import isfinite
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import asdict

from rxworker.errors import ConfigurationError
from rxworker.log import EventLog, MemoryLog
from rxworker.log.kept import change_kept, load_kept
from rxworker.ui.web.boards.boards import BoardQuery
from rxworker.ui.web.http.request import Link, Shown, WebRequest
from rxworker.ui.web.http.responses import ApiError, log_error, read_query

PREFIX = "rxl_"
"""The beginning of the tokens of links, by which a scanner for secrets recognises them."""
TOKEN = re.compile(PREFIX + r"(?P<id>[0-9a-f]{16})_(?P<secret>[\w-]{43})", re.ASCII)

KEY = "rxworker/links"
"""The key of the links in a log."""
EVERY = 1.0
"""Seconds after which links are read again: until then another server may serve one that was revoked."""
PATIENCE = 5.0
"""Seconds that a log may take to return the links, before all their clients are disconnected."""
MAX, MAX_OF_ONE = 1000, 100
"""The maximum number of links, and of those of one user: all are read at once, and fit in a message of NATS."""
MAX_OPEN = 64
"""The maximum number of open requests of one link, so that its clients leave room for others."""


class NewLink(Struct, frozen=True):
    """A link that was just made.

    Attributes:
        link: The link.
        token: Its token, which is not stored.
    """

    link: Link
    token: str

    def __repr__(self) -> str:
        return f"NewLink({self.link.id!r}, token=...)"

    @property
    def path(self) -> str:
        """The address of the page that shows it, or to which the result is posted, after that of the server."""
        if self.link.call:
            return f"api/runs/{quote(self.link.run, safe='')}/deliver?link={self.token}"
        return f"shared#link={self.token}"


class StoredLinks(Struct, frozen=True, forbid_unknown_fields=True):
    """The links of a log.

    Attributes:
        links: By their ids.
    """

    links: dict[str, Link] = {}


def _shows_anything(_link: Link, _request: WebRequest) -> bool:
    """A route whose answer is about the link."""
    return True


def _shows_run(link: Link, request: WebRequest) -> bool:
    return not link.board and link.run == request.params["id"]


def _shows_board(link: Link, request: WebRequest) -> bool:
    query = read_query(request, BoardQuery)
    is_it = link.board in ("", request.params["name"])
    return is_it and link.scope == (query.run, query.conversation)


READABLE: dict[str, Callable[[Link, WebRequest], bool]] = {
    "link": _shows_anything,
    "boards": _shows_anything,
    "run-events": _shows_run,
    "board": _shows_board,
    "board-events": _shows_board,
}
"""What a link may read: the routes by their names, each with whether it shows this. Nothing else is answered."""
DELIVER = "deliver"
"""The route with which a program delivers the results of calls in the background, by a token or a link of its own."""
DELIVERABLE = {DELIVER: _shows_run}
"""The same for a link to a call."""


class Links:
    """The links of a server.

    Args:
        log: Where they are kept; ``None`` for the memory of this process.
        has_users: Whether each link belongs to a user.
    """

    def __init__(self, log: EventLog | None, *, has_users: bool) -> None:
        self._log = log or MemoryLog()
        self._has_users = has_users
        self._known = StoredLinks()
        self._read_at = float("-inf")
        self._changing = asyncio.Lock()
        self._open: dict[str, set[asyncio.Task[object]]] = {}
        self._ended = set[asyncio.Task[object]]()
        self._looking: asyncio.Task[None] | None = None

    async def make(self, shown: Shown, *, owner: str | None = None, until: float | None = None) -> NewLink:
        """Make a link.

        Args:
            shown: What it shows.
            owner: The user who makes it, if the server has users.
            until: When it ends, in seconds since the epoch.

        Raises:
            ConfigurationError: It shows nothing, the end is not in the future, or the server has users and none is
                given.
            ApiError: There are too many links.
            LogError: The log cannot be read or written.
        """
        now = time.time()
        if (owner is None) is self._has_users:
            raise ConfigurationError("owner= is the user of a server with users: give it only there")
        if not (shown.run or shown.board) or (shown.run and shown.conversation):
            raise ConfigurationError(
                "a link shows a run, or a dashboard of a run, of a conversation or of all runs: give it run=, or board="
            )
        if shown.call and (shown.board or not shown.run):
            raise ConfigurationError("a link that delivers the result of a call has its run: give it run= and call=")
        if until is not None and not (isfinite(until) and until > now):
            raise ConfigurationError(f"until={until!r}: give a time in the future, in seconds since the epoch")
        secret = secrets.token_urlsafe(32)
        given = asdict(shown)
        link = Link(**given, id=secrets.token_hex(8), created=now, until=until, owner=owner, digest=_digest(secret))

        def add(stored: StoredLinks) -> StoredLinks:
            kept = {one.id: one for one in stored.links.values() if not one.is_over(now)}
            of_one = Counter(one.owner for one in kept.values())[owner]
            if len(kept) >= MAX or (self._has_users and of_one >= MAX_OF_ONE):
                raise ApiError(429, "too_many_links", "there are too many links: revoke one")
            return StoredLinks({**kept, link.id: link})

        await self._change(add)
        return NewLink(link, f"{PREFIX}{link.id}_{secret}")

    async def of(self, owner: str | None = None) -> list[Link]:
        """The links of a user, or of a server without users, the newest first.

        Raises:
            LogError: The log cannot be read.
        """
        async with self._changing:
            await self._read()
        now = time.time()
        own = [one for one in self._known.links.values() if one.owner == owner and not one.is_over(now)]
        return sorted(own, key=lambda link: -link.created)

    async def revoke(self, link_id: str, owner: str | None = None) -> None:
        """Revoke a link.

        Its open requests end: at once on this server, and on the others of the log within `EVERY` seconds.

        Args:
            link_id: The id of the link.
            owner: The user who made it.

        Raises:
            ApiError: The user has no such link.
            LogError: The log cannot be read or written.
        """

        def remove(stored: StoredLinks) -> StoredLinks:
            found = stored.links.get(link_id)
            if found is None or found.owner != owner:
                raise ApiError(404, "no_link", "there is no such link: it was revoked, or has ended")
            return StoredLinks({id_: one for id_, one in stored.links.items() if id_ != link_id})

        await self._change(remove)

    async def find(self, token: str) -> Link:
        """The link of a token.

        Raises:
            ApiError: There is none, it was revoked, or it has ended.
            LogError: The log cannot be read.
        """
        if (match := TOKEN.fullmatch(token)) is not None:
            began = self._clock()
            async with self._changing:
                # Another server may have made it just now: one that is not known is looked for, by all requests that
                # wait together.
                is_known = match["id"] in self._known.links
                if self._read_at < (began - EVERY if is_known else began):
                    await self._read()
            link = self._known.links.get(match["id"])
            if (
                link is not None
                and hmac.compare_digest(link.digest, _digest(match["secret"]))
                and not link.is_over(time.time())
                and (link.owner is not None) is self._has_users
            ):
                return link
        raise _over()

    @contextmanager
    def opened(self, link: Link, request: WebRequest) -> Generator[None, None, None]:
        """Context manager: a request of a link is answered, by this task, which is cancelled when the link is revoked.

        Raises:
            ApiError: The link does not show that, it has too many requests, or it was revoked meanwhile.
            ConnectionError: It was revoked, and the response had begun.
        """
        methods, rights = (("POST",), DELIVERABLE) if link.call else (("GET", "HEAD"), READABLE)
        shows = rights.get(request.route or "") if request.method in methods else None
        if shows is None or not shows(link, request):
            raise ApiError(403, "not_shared", "this link does not show that")
        task = asyncio.current_task()
        assert task is not None
        tasks = self._open.setdefault(link.id, set())
        if len(tasks) >= MAX_OPEN:
            raise ApiError(429, "too_many_watchers", "too many clients use this link: close a page")
        tasks.add(task)
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="links")
        try:
            yield
        except asyncio.CancelledError:
            if task not in self._ended or task.uncancel():
                raise  # it is the server that stops, or the client that has left
            if request.has_sent:
                raise ConnectionResetError("the link was revoked, or has ended") from None
            raise _over() from None
        finally:
            self._ended.discard(task)
            tasks.discard(task)
            if not tasks and self._open.get(link.id) is tasks:
                del self._open[link.id]

    def close(self) -> None:
        """Look for changes no more."""
        if self._looking is not None:
            self._looking.cancel()

    async def _look(self) -> None:
        """End the requests of links that were revoked, or have ended, while there are requests."""
        try:
            while self._open:
                await asyncio.sleep(EVERY)
                try:
                    async with asyncio.timeout(PATIENCE), self._changing:
                        await self._read()
                except Exception as error:  # also a defect must not leave them open
                    log_error("links cannot be read: their clients are disconnected", error)
                    self._known, self._read_at = StoredLinks(), float("-inf")
                self._end_others()
        finally:
            self._looking = None

    async def _read(self) -> None:
        began = self._clock()
        self._known = await load_kept(self._log, KEY, StoredLinks)
        self._read_at = began

    async def _change(self, change: Callable[[StoredLinks], StoredLinks]) -> None:
        async with self._changing:
            self._known = await change_kept(self._log, KEY, StoredLinks, change)
            self._read_at = self._clock()
        self._end_others()

    def _end_others(self) -> None:
        now = time.time()
        for id_, tasks in self._open.items():
            link = self._known.links.get(id_)
            if link is None or link.is_over(now):
                for task in tasks - self._ended:
                    self._ended.add(task)
                    task.cancel()

    @staticmethod
    def _clock() -> float:
        return asyncio.get_running_loop().time()


def _over() -> ApiError:
    return ApiError(401, "link_over", "this link was revoked or has ended: its owner can make another one")


def _digest(secret: str) -> str:
    return sha256(secret.encode()).hexdigest()
