"""Pictures and documents that a client sends, as content."""

from __future__ import annotations

from rxworker.errors import LocalProtocolError
from rxworker.messages import Document, Image

SCHEMES = ("https://", "http://")


def media(
    media_type: str, *, data: str = "", url: str = "", title: str | None = None
) -> Image | Document:
    """A picture or a document, by its bytes in base64 or its address; the address may hold the bytes.

    Raises:
        LocalProtocolError: It is neither a picture nor a document, or is somewhere a provider cannot fetch it from.

    >>> media("image/png", url="data:image/png;base64,AAAA")
    Image(media_type='image/png', data='AAAA', url=None, echo=None, file_id=None)
    """
    if url.startswith("data:"):
        head, comma, data = url.removeprefix("data:").partition(",")
        named, _, encoding = head.partition(";")
        if not comma or encoding.rpartition(";")[2] != "base64":
            raise LocalProtocolError("a data: address is read where it holds base64: send that")
        media_type, url = media_type or named, ""
    elif url and not url.startswith(SCHEMES):
        raise LocalProtocolError(f"a file must be at an https: or data: address, not {url[:40]!r}")
    if not data and not url:
        raise LocalProtocolError("a file has neither an address nor bytes: send one of them")
    if media_type.startswith(("audio/", "video/")):
        raise LocalProtocolError(f"{media_type} is not read: send text, pictures or documents")
    if media_type.startswith("image/"):
        return Image(media_type, data or None, url or None)
    return Document(media_type or "application/pdf", data or None, url or None, title)


__all__ = ["media"]
