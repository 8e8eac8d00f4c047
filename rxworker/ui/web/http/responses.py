"""HTTP responses (JSON, errors, files of the page, probes) and the reading of request bodies.

The files of the page are read once from the package; no other file is ever served. The routes of the probes of service
managers and load balancers state whether a process lives, and whether it takes requests. They need no token, since they
reveal nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Struct

from rxworker.errors import ConfigurationError, DecisionError, LocalProtocolError, message_of, nearest
from rxworker.log import EventLog, RunInfo
from rxworker.operators.gate import expect_allowed
from rxworker.protocols.native import encode_json
from rxworker.redact import format_error
from rxworker.ui.web.http.request import Route, WebRequest, get

A = TypeVar("A")
S = TypeVar("S", bound=Struct)

logger = logging.getLogger("rxworker.ui.web")


def log_error(text: str, error: BaseException, **extra: object) -> None:
    """Log an error that is raised to no caller, with its traceback and without secrets.

    Args:
        text: What failed.
        error: The error.
        extra: Further attributes of the log record.
    """
    logger.error("%s\n%s", text, format_error(error), extra=extra)


ERROR_HEADER = "X-Rxworker-Error"
"""The response header with the code of an error whose body is plain text."""


class ApiError(Exception):
    """The request is refused.

    Attributes:
        status: The HTTP status.
        code: The error code.
        message: The cause and the remedy, for the user.
    """

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@contextmanager
def refused(kind: type[Exception], status: int, code: str, name: str = "") -> Generator[None, None, None]:
    """Context manager: report an exception of this kind to the client; with the name of the parameter, if one is given.

    Raises:
        ApiError: There was one.
    """
    try:
        yield
    except kind as error:
        raise ApiError(status, code, f"{name}{name and ': '}{message_of(error)}") from error


def json_response(value: object, status: int = 200) -> web.Response:
    """Return the value as JSON."""
    return bytes_response(encode_json(value), status)


def bytes_response(data: bytes, status: int = 200) -> web.Response:
    """Return data that is JSON already."""
    return web.Response(body=data, status=status, content_type="application/json", charset="utf-8")


def error_response(status: int, code: str, message: str) -> web.Response:
    """Return an error as JSON."""
    return json_response({"error": {"code": code, "message": message}}, status)


def text_response(status: int, code: str, message: str) -> web.Response:
    """Return an error as the text that a client shows to its user; the code is in a header."""
    return web.Response(status=status, text=message, headers={ERROR_HEADER: code})


async def read_body(request: WebRequest) -> bytes:
    """Read the body within the limits of size and time.

    Raises:
        ApiError: It is too large, too slow or compressed.
    """
    if "Content-Encoding" in request.headers:
        # A small compressed body may expand to a large one.
        raise ApiError(415, "encoded", "send the body as it is, without Content-Encoding")
    most, seconds = request.settings.max_body, request.settings.body_seconds
    too_large = partial(ApiError, 413, "too_large", f"the body may have at most {most} bytes")
    if (request.content_length or 0) > most:
        raise too_large()
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.body():
                body += piece
                if len(body) > most:
                    raise too_large()
    except TimeoutError:
        raise ApiError(408, "too_slow", f"the body has to arrive within {seconds:g} s") from None
    except ValueError:
        raise ApiError(400, "bad_request", "the body is cut off, or not framed as HTTP") from None
    return bytes(body)


async def read_json_bytes(request: WebRequest) -> bytes:
    """Read a body whose Content-Type is JSON.

    A page of another origin cannot send such a body without a preflight request.

    Raises:
        ApiError: It has another type, is too large or too slow.
        InputRefusedError: The gate of the server has not let it pass.
    """
    body = await read_body(request)
    if body and request.content_type != "application/json":
        raise ApiError(415, "no_json", "send JSON, with Content-Type: application/json")
    if body:
        await expect_allowed(request.settings.gate, body)
    return body


async def read_json(request: WebRequest, kind: type[A]) -> A:
    """Read the body as a value of this type; an empty body is ``{}``.

    Raises:
        ApiError: It does not match the type.
    """
    body = await read_json_bytes(request)
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ApiError(400, "bad_request", f"the body is not valid: {error}") from None


def decode_body(body: bytes, read: Callable[[bytes], A]) -> A:
    """Read a body with the reader of its protocol.

    Raises:
        ApiError: The reader has raised `LocalProtocolError`.
        DecisionError: A decision in it is not valid.
    """
    try:
        return read(body)
    except DecisionError:
        raise
    except LocalProtocolError as error:
        raise ApiError(400, "bad_request", str(error)) from None


def read_query(request: WebRequest, kind: type[S]) -> S:
    """Read the parameters of the address as a value of this type.

    Of several with one name the first counts, except for those that a class variable ``several`` of the type names.
    Unknown parameters, which may be those of the program around, are ignored. One that is nearly a parameter of a type
    with a class variable ``beside`` is refused, unless that names it: a misspelt filter would let everything through.

    Raises:
        ApiError: They do not match the type. The error names what a parameter may be, if its type does.
    """
    beside: frozenset[str] | None = getattr(kind, "beside", None)
    for each in () if beside is None else request.query.keys() - {*kind.__struct_encode_fields__, *beside}:
        if remedy := nearest(each, kind.__struct_encode_fields__):
            raise ApiError(400, "bad_request", f"there is no parameter {each!r:.60}{remedy}")
    given: dict[str, object] = dict(request.query)
    for name in getattr(kind, "several", ()):
        if name in given:
            given[name] = request.query.getall(name)
    try:
        read = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        what = str(error)
        name = what.partition("`$.")[2].removesuffix("`")
    else:
        names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
        # msgspec takes ``null`` for None, which a parameter that is there must not be.
        empty = [n for n, field in names if n in given and getattr(read, field) is None]
        if not empty:
            return read
        name = empty[0]
        what = f"{given[name]!r:.60} is not a value - at `$.{name}`"
    fields = dict(zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True))
    known = _choices(get_type_hints(kind, include_extras=True).get(fields.get(name, "")))
    remedy = ": give " + " or ".join([", ".join(known[:-1]), known[-1]]) if known[1:] else ""
    raise ApiError(400, "bad_request", f"the parameters are not valid: {what}{remedy}")


def _choices(annotation: object) -> list[str]:
    """What a value of a type may be, if the type has a list or examples of it."""
    parts = get_args(annotation)
    if get_origin(annotation) is Literal:
        return [part for part in parts if part]
    found = [part.examples for part in parts if isinstance(part, msgspec.Meta)]
    return [*chain.from_iterable(filter(None, found)), *chain.from_iterable(map(_choices, parts))]


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
INDEX, FLEET, BOARDS, DIAGRAM = "index.html", "fleet.html", "boards.html", "diagram.html"
DIAGRAM_HTML = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Diagram</title>
<style>body { margin: 0; padding: 12px; background: #fff; } body.dark { background: #191d1f; }
svg { display: block; margin: auto; }</style>
<div id="diagram"></div>
"""
FRAMES = {"Content-Security-Policy": f"{CONTENT_SECURITY_POLICY}; frame-src 'self'"}
"""The policy of the page, if it draws diagrams."""
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".LICENSE": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


class PageFile(Struct, frozen=True):
    """A file of the page.

    Attributes:
        body: The content.
        content_type: The media type.
        etag: A digest of the content, for the browser's cache.
        headers: The policies that it has of its own.
    """

    body: bytes
    content_type: str
    etag: str
    headers: Mapping[str, str] = {}


class Page:
    """The files of the page by path.

    Args:
        mermaid: The library that draws diagrams, if the page is to draw them.

    Raises:
        ConfigurationError: That file is not there, or another one.

    >>> Page().files["index.html"].content_type
    'text/html'
    """

    def __init__(self, mermaid: str | Path | None = None) -> None:
        self.files = dict(_all_files())
        script = self.files.pop("diagram.js").body
        if mermaid is not None:
            self.files[DIAGRAM] = _diagram(_mermaid(mermaid), script.decode())
            index = self.files[INDEX].body.replace(b"<html ", b"<html data-diagrams ", 1)
            self.files[INDEX] = _file(index, "text/html", FRAMES)

    def answer(self, request: WebRequest, path: str) -> web.Response:
        """Return the file, or 304 if the browser has it.

        Raises:
            ApiError: There is no such file.
        """
        if (file := self.files.get(path)) is None:
            raise ApiError(404, "not_found", "there is no such file")
        # The browser checks each time whether its copy is current.
        headers = {"ETag": file.etag, "Cache-Control": "no-cache", **file.headers}
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        charset = "utf-8" if file.content_type.startswith("text/") else None
        return web.Response(body=file.body, content_type=file.content_type, charset=charset, headers=headers)


@cache
def _all_files() -> Mapping[str, PageFile]:
    """The files of the installed package, the same for all servers of a process.

    To read them takes longer than to make a server.
    """
    return dict(_files(resources.files("rxworker.ui.web") / "static", ""))


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for item in folder.iterdir():
        path = prefix + item.name
        if item.is_dir():
            yield from _files(item, f"{path}/")
            continue
        if (kind := TYPES.get(item.name[item.name.rfind(".") :])) is not None:
            yield path, _file(item.read_bytes(), kind)


def _file(body: bytes, kind: str, headers: Mapping[str, str] | None = None) -> PageFile:
    return PageFile(body, kind, f'"{sha256(body).hexdigest()[:32]}"', headers or {})


def _mermaid(path: str | Path) -> str:
    """The library, as it is written in the package."""
    try:
        library = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"mermaid={str(path)!r}: {format_error(error)}") from None
    if 'globalThis["mermaid"]' not in library:
        message = "this is not the file dist/mermaid.min.js of the npm package mermaid"
        raise ConfigurationError(f"mermaid={str(path)!r}: {message}")
    return library


def _diagram(library: str, script: str) -> PageFile:
    """The document in which a diagram is drawn.

    It runs these two scripts and loads nothing; the page shows it in a frame without an origin.
    """
    # In HTML, these would end the script, or begin a comment.
    scripts = [one.replace("</script", r"<\/script").replace("<!--", r"<\!--") for one in (library, script)]
    digests = [b64encode(sha256(one.encode()).digest()).decode() for one in scripts]
    sources = " ".join(f"'sha256-{digest}'" for digest in digests)
    policy = (
        f"sandbox allow-scripts; default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )
    body = DIAGRAM_HTML + "".join(f"<script>{one}</script>" for one in scripts)
    return _file(body.encode(), "text/html", {"Content-Security-Policy": policy, "X-Frame-Options": "SAMEORIGIN"})


STARTING, CLOSING, LOG_FAILED = "starting", "closing", "the log cannot be read"
"""The reasons why a process takes no requests."""

PROBES = frozenset({"healthz", "readyz"})
"""The routes of probes."""


PATIENCE = 2.0
"""Seconds that a log may take to answer when a probe arrives."""

Look = asyncio.Task[RunInfo | None]
"""A request to a log."""


def health_routes(
    find_obstacle: Callable[[], str], find_log: Callable[[], EventLog | None] = lambda: None
) -> list[Route]:
    """The routes ``/healthz`` and ``/readyz``.

    Args:
        find_obstacle: Returns why the process takes no requests now, in a few words; empty if it does.
        find_log: Returns the log, which a probe queries as well: what follows it notices a lost connection late.

    Example:
        >>> [route.path for route in health_routes(lambda: "")]
        ['/healthz', '/readyz']
    """
    looks: list[Look] = []

    async def find_silence() -> str:
        if (log := find_log()) is None:
            return ""
        if not looks:  # one at a time for all probes
            looks.append(asyncio.create_task(log.info("run-0"), name="probe of the log"))
            looks[0].add_done_callback(looks.remove)
        look = looks[0]
        await asyncio.wait({look}, timeout=PATIENCE)
        return "" if look.done() and look.exception() is None else LOG_FAILED

    async def get_health(_: WebRequest) -> web.Response:
        return web.Response(text="ok\n")

    async def get_readiness(_: WebRequest) -> web.Response:
        obstacle = find_obstacle() or await find_silence()
        return web.Response(text=f"{obstacle or 'ok'}\n", status=503 if obstacle else 200)

    return [get("/healthz", get_health, "healthz"), get("/readyz", get_readiness, "readyz")]
