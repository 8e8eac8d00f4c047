"""The guard that checks every request and converts errors, and the headers of every response.

A request is refused if its host is not allowed, if it comes from a page of another origin, or if a required token is
missing. All errors have one form; unexpected errors are logged with an ID, which the client also receives.

A browser cannot add a header to a WebSocket. It sends the token once, in the address of the page, and receives a
cookie. The cookie does not contain the token, but a value that can only be derived from it; it is valid until the token
is changed.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from hashlib import sha256
from typing import TypeAlias

from aiohttp import web

from rxworker import errors
from rxworker.protocols.openai.chat import openai_error
from rxworker.protocols.registry import UI_PROTOCOLS
from rxworker.ui.web.boards.links import DELIVER, PREFIX, Links
from rxworker.ui.web.http.request import Handler, WebRequest
from rxworker.ui.web.http.responses import (
    CONTENT_SECURITY_POLICY,
    PROBES,
    ApiError,
    json_response,
    log_error,
    logger,
    text_response,
)
from rxworker.ui.web.http.responses import error_response as json_error_response
from rxworker.ui.web.http.settings import Hosts, Settings, is_own_origin
from rxworker.watchdog import call_watched


class Token:
    """A token and the values that are derived from it.

    Attributes:
        cookie: The name of the cookie. Cookies ignore ports: two servers of one machine with different tokens use
            different cookie names.

    >>> token = Token("a long secret")
    >>> token.fits("a long secret"), token.fits("another"), token.fits_cookie(token.cookie_value)
    (True, False, True)
    """

    __slots__ = ("_token", "cookie", "cookie_value")

    def __init__(self, token: str) -> None:
        self._token = token.encode("utf-8", "surrogatepass")
        self.cookie = f"rxworker_{self._derived(b'cookie name')[:12]}"
        self.cookie_value = self._derived(b"cookie value")

    def fits(self, given: str) -> bool:
        """Whether this is the token. Takes constant time."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self._token)

    def fits_cookie(self, given: str) -> bool:
        """Whether this is the value of the cookie. Takes constant time."""
        return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), self.cookie_value.encode())

    def _derived(self, purpose: bytes) -> str:
        return hmac.new(self._token, b"rxworker " + purpose, sha256).hexdigest()


HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "rxworker",
}

POLICIES = ("Content-Security-Policy", "X-Frame-Options")
"""The headers that a file of the page may have of its own."""

_HTTP_ERRORS = {
    404: ("not_found", "there is nothing at this address"),
    405: ("wrong_method", "this address takes another method"),
}

BOARD_PAGE = "board-page"
"""The route of the page of a dashboard, whose address is one level below that of the server."""

PAGES = frozenset({"page", "fleet-page", "boards-page", BOARD_PAGE})
"""The routes of pages, whose address may contain the token."""

OPEN = frozenset({"static", "shared-page"})
"""The routes of the files of the page, which are the same for all.

The page of a read-only link loads without another token.
"""

EMBEDDED = re.compile(
    r"/static/.|/api/(info|link|(boards|streams)(/.+)?|runs(/[^/]+(/(send|pause|cancel|resume|fork|events))?)?)$"
)
"""The addresses that another page, of an allowed origin, may use to show and steer runs, streams and dashboards.

The streams are those that are published. Records also come over the WebSocket.
"""

CHAT = frozenset({"chat", "chat-messages", "chat-stop", "chat-stream"})
"""The routes of ``useChat``, which shows the body of an error to its user unchanged."""

OPENAI = "openai-"
"""The beginning of the names of the routes of OpenAI's APIs, whose errors have a form of their own."""

UNLOCK = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{root}static/styles/unlock.css">
<link rel="icon" href="{root}static/icon.svg" type="image/svg+xml">
<main><h1>{title}</h1>
<p>Open this page once with its token: put <code>?token=</code> and the token after the address.</p>
<p>If you just have, <a href="?">continue</a>.</p></main>
</html>
"""

User: TypeAlias = Callable[[WebRequest], str | Awaitable[str | None] | None]
"""Returns the name of the user who sends a request, or ``None`` if unknown.

Or raises a response, such as ``web.HTTPSeeOther``.
"""


def add_headers(headers: MutableMapping[str, str], origin: str | None = None) -> None:
    """Add the security headers to those of a response.

    Args:
        headers: The headers.
        origin: The other origin whose page may read the response.
    """
    policies = {name: headers[name] for name in POLICIES if name in headers}
    headers.update(HEADERS | policies)
    headers.setdefault("Cache-Control", "no-store")
    if origin is not None:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Allow-Credentials"] = "true"
        headers["Access-Control-Expose-Headers"] = "*, Date"  # * is not a wildcard with credentials
        headers["Vary"] = "Origin"


PREFLIGHT = {
    "Access-Control-Allow-Headers": "*, Authorization, Content-Type",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Max-Age": "600",
}
"""What a page of an allowed origin may send: https://fetch.spec.whatwg.org/#http-cors-protocol"""


class Guard:
    """Checks requests.

    Args:
        settings: The settings of the server.
        user: Returns the name of the user who sends a request.
        links: The read-only links.
    """

    def __init__(self, settings: Settings, user: User | None = None, links: Links | None = None) -> None:
        self._user = user
        self._links = links
        self._hosts = Hosts(settings.allowed_hosts)
        self._origins = settings.allowed_origins
        self._token = None if settings.token is None else Token(settings.token)
        self._deliver_token = None if settings.deliver_token is None else Token(settings.deliver_token)
        self._max_requests = settings.max_connections
        self._open_requests = 0

    def check_source(self, request: WebRequest) -> None:
        """Check that the request names an allowed host and does not come from a page of another origin.

        Raises:
            ApiError: The request is refused.
        """
        hosts = request.headers.getall("Host", [])
        # A request to a proxy has an absolute URL, whose host must be checked too.
        if len(hosts) != 1 or not all(map(self._hosts.allow, (hosts[0], request.host))):
            message = "this host name is not allowed: add it to allowed_hosts if it should be"
            raise ApiError(403, "foreign_host", message)
        for origin in request.headers.getall("Origin", []):
            if not is_own_origin(origin, hosts[0], self._origins):
                message = "a page of another origin may send no requests here: see allowed_origins"
                raise ApiError(403, "foreign_origin", message)
            if origin in self._origins and (EMBEDDED.search(request.raw_path) or _is_openai(request)):
                request.origin = origin
        if "Origin" not in request.headers and _is_foreign(request):
            raise ApiError(403, "foreign_origin", "another site's page may send no requests here")

    def check_token(self, request: WebRequest) -> None:
        """Check that the request contains the token, if one is required.

        Raises:
            ApiError: The token is missing or wrong.
        """
        token = self._token
        if token is None or token.fits(_bearer(request)):
            return
        if token.fits_cookie(request.cookies.get(token.cookie, "")):
            return
        message = "this needs the token: send Authorization: Bearer ..., or open the page with ?token=... once"
        raise ApiError(401, "token_needed", message)

    def link_token(self, request: WebRequest) -> str | None:
        """The token of a link that a request has: then it has no other rights, whatever else it has.

        That of a delivery may be in its address, since many services that call a webhook send no other header.
        """
        given = (request.query.get("link") if request.route == DELIVER else None) or _bearer(request)
        is_own = self._token is not None and self._token.fits(given)
        return given if given.startswith(PREFIX) and not is_own else None

    async def check_user(self, request: WebRequest) -> None:
        """Store the user of the request, if the server has users.

        Raises:
            ApiError: The user is unknown.
        """
        if self._user is None:
            return
        name = await call_watched("user", self._user, request)
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance] - the program's function
            logger.error("user= returned %.60r: return the name of a user as a str, or None", name)
            name = None
        if not name:
            raise ApiError(401, "user_needed", "log in first")
        request.owner = name

    def exchange(self, request: WebRequest) -> web.Response | None:
        """Exchange a token in the page's address: return a cookie and a redirect to the address without the token."""
        if (given := request.query.get("token")) is None:
            return None
        folder, _, page = request.path.rpartition("/")
        if request.route == BOARD_PAGE:
            folder = folder.rpartition("/")[0]
        response = web.Response(status=303, headers={"Location": f"./{page}"})
        if self._token is None:
            return response
        if not self._token.fits(given):
            raise ApiError(401, "token_needed", "this is not the token")
        response.set_cookie(
            self._token.cookie,
            self._token.cookie_value,
            path=f"{folder}/",
            httponly=True,
            samesite="Strict",
            secure=request.is_secure,
        )
        return response

    async def serve(self, request: WebRequest, handle: Handler) -> web.Response | None:
        """Check a request and answer it; every exception becomes a response.

        Raises:
            HTTPException: A function of the program raised a response that is not an error, such as a redirect to a
                login page.
            ConnectionError: The client has disconnected.
        """
        if request.route in PROBES:  # they come from the machine's own address, without a token
            return await handle(request)
        self._open_requests += 1
        try:
            return await self._admit(request, handle)
        except web.HTTPException as error:
            if error.status < 400:
                raise
            return _answer(request, error)
        except (ConnectionError, TimeoutError):
            raise  # of the client's connection: no client is left to receive a response
        except (Exception, SystemExit) as error:  # SystemExit in a function of the program must not end the server
            return _answer(request, error)
        finally:
            self._open_requests -= 1

    async def _admit(self, request: WebRequest, handle: Handler) -> web.Response | None:
        """Answer a request that may come in."""
        name = request.route
        if self._open_requests > self._max_requests:
            message = "too many requests are open: close a page, or raise max_connections"
            raise ApiError(503, "too_many_connections", message)
        self.check_source(request)
        if request.origin is not None and request.method == "OPTIONS":
            return web.Response(status=204, headers=PREFLIGHT)
        if name in PAGES and (exchanged := self.exchange(request)) is not None:
            return exchanged
        if name in OPEN:
            return await handle(request)
        if (shared := self.link_token(request)) is not None and self._links is not None:
            request.link = link = await self._links.find(shared)
            request.owner = link.owner
            with self._links.opened(link, request):
                response = await handle(request)
            if link.call:
                await self._links.revoke(link.id, link.owner)
            return response
        if name == DELIVER and self._deliver_token is not None and self._deliver_token.fits(_bearer(request)):
            request.only_delivers = True
            return await handle(request)
        self.check_token(request)
        await self.check_user(request)
        return await handle(request)


_REFUSALS: Sequence[tuple[type[errors.RxWorkerError], int, str]] = (
    (errors.InputRefusedError, 400, "input_refused"),
    (errors.DecisionError, 400, "bad_decision"),
    (errors.RemoteProtocolError, 400, "bad_request"),
    (errors.LocalProtocolError, 409, "conflict"),
    # another client was faster
    (errors.CommandConflictError, 409, "conflict"),
    (errors.LeaseHeldError, 409, "conflict"),
    (errors.RunStatusError, 409, "conflict"),
)
"""The status and the code of errors that a client can do something about, the first that fits."""


def _answer(request: WebRequest, error: Exception | SystemExit) -> web.Response:
    """The response to a request that has failed."""
    error_response = _error_response(request)
    if isinstance(error, ApiError):
        return _refused(request, error)
    if isinstance(error, web.HTTPException):
        code, text = _HTTP_ERRORS.get(error.status, ("http", error.reason))
        response = error_response(error.status, code, text)
        if "Allow" in error.headers:
            response.headers["Allow"] = error.headers["Allow"]
        return response
    is_own = isinstance(error, errors.ConfigurationError) and not isinstance(error, errors.InputRefusedError)
    for kind, status, code in () if is_own else _REFUSALS:  # the client can do nothing about one of the program
        if isinstance(error, kind):
            return error_response(status, code, error.message if kind is errors.InputRefusedError else str(error))
    if isinstance(error, errors.LogError):
        logger.error(
            "%s %s failed: %s",
            request.method,
            request.raw_path,
            error,
            extra={"method": request.method, "path": request.raw_path},
        )
        return error_response(503, "log", "the log cannot be read or written; the log of the server has the details")
    return _unexpected_error(request, error, error_response)


def _refused(request: WebRequest, error: ApiError) -> web.Response:
    """The response to a request that may not come in, or that the server does not understand."""
    if error.code == "token_needed" and request.route in PAGES:
        title = "Token needed" if "token" not in request.query else "Wrong token"
        root = "../" if request.route == BOARD_PAGE else ""
        response = web.Response(text=UNLOCK.format(title=title, root=root), status=401, content_type="text/html")
    else:
        response = _error_response(request)(error.status, error.code, error.message)
    if error.code == "token_needed":
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.status in (401, 403, 503):
        response.force_close()  # a refused client must not occupy a connection
    return response


def _bearer(request: WebRequest) -> str:
    """The token that a request has as its authorization; empty without one."""
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def _is_foreign(request: WebRequest) -> bool:
    """Whether the browser reports that another page sends the request.

    Links on such a page are allowed, everything else is not.

    Servers on other ports of this machine are the same site, therefore only the same origin is trusted.
    """
    headers = request.headers
    if headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin"):
        return False
    is_link = headers.get("Sec-Fetch-Mode") == "navigate" and request.method in ("GET", "HEAD")
    return not (is_link and headers.get("Sec-Fetch-Dest", "document") == "document")


def _is_ui_protocol(request: WebRequest) -> bool:
    """Whether a client of a UI protocol sends the request, which also shows the body of an error.

    Its ``Accept`` names the media type of a stream.
    """
    return request.route in UI_PROTOCOLS and "text/event-stream" in request.headers.get("Accept", "")


def _is_openai(request: WebRequest) -> bool:
    """Whether a client of OpenAI's APIs sends the request.

    It may send it to an address that the server does not have, or before the request itself.
    """
    route = request.route
    return "/v1/" in request.raw_path if route is None else route.startswith(OPENAI)


def _error_response(request: WebRequest) -> Callable[[int, str, str], web.Response]:
    """How an error is written for the client of this route."""
    if _is_openai(request):
        return lambda status, code, message: json_response(openai_error(status, code, message), status)
    return text_response if request.route in CHAT or _is_ui_protocol(request) else json_error_response


def _unexpected_error(
    request: WebRequest, error: Exception | SystemExit, error_response: Callable[[int, str, str], web.Response]
) -> web.Response:
    number = secrets.token_hex(4)
    # The path alone, as it was sent: the query and the headers may contain a token.
    path = request.raw_path
    log_error(
        f"error {number}: {request.method} {path} failed", error, error_id=number, method=request.method, path=path
    )
    return error_response(500, "error", f"the server failed; its log has the details under {number}")
