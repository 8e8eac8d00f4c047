"""The page and its files: read once from the package, and nothing else is ever served."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from importlib import resources
from importlib.resources.abc import Traversable

from aiohttp import web
from msgspec import Struct

from rxworker.ui.web.answers import ApiError

INDEX = "index.html"
TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".LICENSE": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}


class PageFile(Struct, frozen=True):
    """A file as it is served.

    Attributes:
        body: What it holds.
        content_type: What it is.
        etag: A digest, by which a browser finds that it has the file.
    """

    body: bytes
    content_type: str
    etag: str


class Page:
    """The files of the page, by their paths.

    >>> Page().files["index.html"].content_type
    'text/html'
    """

    def __init__(self) -> None:
        root = resources.files("rxworker.ui.web") / "static"
        self.files = dict(_files(root, ""))

    def answer(self, request: web.Request, path: str) -> web.Response:
        """The file, or word that the browser has it.

        Raises:
            ApiError: There is no such file.
        """
        file = self.files.get(path)
        if file is None:
            raise ApiError(404, "not_found", "there is no such file")
        # The browser asks each time whether it has the newest.
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if file.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers=headers)
        text = file.content_type.startswith("text/")
        charset = "utf-8" if text else None
        return web.Response(
            body=file.body, content_type=file.content_type, charset=charset, headers=headers
        )


def _files(folder: Traversable, prefix: str) -> Iterator[tuple[str, PageFile]]:
    for item in folder.iterdir():
        path = prefix + item.name
        if item.is_dir():
            yield from _files(item, f"{path}/")
            continue
        kind = TYPES.get(item.name[item.name.rfind(".") :])
        if kind is not None:
            body = item.read_bytes()
            yield path, PageFile(body, kind, f'"{sha256(body).hexdigest()[:32]}"')


__all__ = ["INDEX", "Page", "PageFile"]
