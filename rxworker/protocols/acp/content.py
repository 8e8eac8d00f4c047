"""Content blocks of the Agent Client Protocol to those of a message, and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rxworker.errors import LocalProtocolError
from rxworker.messages import Audio, Content, Document, Image, Message, Text, ToolResult
from rxworker.protocols.acp import wire
from rxworker.protocols.acp.wire import ContentBlock
from rxworker.protocols.common import media


def read_prompt(blocks: Iterable[ContentBlock]) -> Message:
    """The message of a prompt. An embedded text is given to the model with its address; a link is only mentioned.

    Raises:
        LocalProtocolError: The prompt is empty.

    >>> read_prompt([wire.TextContent("Why?"), wire.ResourceLink("file:///a.py", "a.py")]).text
    'Why?[@a.py](file:///a.py)'
    """
    content = tuple(map(_read, blocks))
    if not any(not isinstance(block, Text) or block.text.strip() for block in content):
        raise LocalProtocolError("the prompt is empty: send a text")
    return Message("user", content)


def _read(block: ContentBlock) -> Content:
    match block:
        case wire.TextContent(text=text):
            return Text(text)
        case wire.ImageContent(data=data, mime_type=media_type):
            return Image(media_type, data)
        case wire.AudioContent(data=data, mime_type=media_type):
            return Audio(media_type, data)
        case wire.ResourceLink(uri=uri, name=name, title=title):
            return Text(f"[@{title or name}]({uri})")
        case wire.EmbeddedResource(resource=resource):
            return _embedded(resource)


def _embedded(resource: wire.ResourceContents) -> Content:
    uri = resource.uri
    if resource.text is not None:
        return Text(f'\n<context ref="{uri}">\n{resource.text}\n</context>\n')
    media_type = resource.mime_type or ""
    if resource.blob and media_type.startswith("audio/"):
        return Audio(media_type, resource.blob)
    if resource.blob and media_type.startswith(("image/", "application/pdf")):
        return media(media_type, data=resource.blob, title=uri)
    return Text(f"[@{uri}, {media_type or 'of an unknown type'}, which cannot be shown]")


def blocks_of(content: Iterable[Content]) -> Iterator[ContentBlock]:
    """The blocks that a client can show: texts, pictures and recordings.

    A file that is only named becomes a link or a text.

    >>> list(blocks_of([Text("rain")]))
    [TextContent(text='rain')]
    """
    for part in content:
        match part:
            case Text(text=text) if text:
                yield wire.TextContent(text)
            case Image(media_type=media_type, data=str() as data):
                yield wire.ImageContent(data, media_type)
            case Audio(media_type=media_type, data=str() as data):
                yield wire.AudioContent(data, media_type)
            case Image(url=str() as url):
                yield wire.ResourceLink(url, url)
            case Document(url=str() as url, title=title):
                yield wire.ResourceLink(url, title or url)
            case Document(media_type=media_type, title=title):
                yield wire.TextContent(f"[{title or 'a document'}, {media_type}]")
            case _:
                pass


def result_blocks(result: ToolResult) -> list[ContentBlock]:
    """The content of a result of a call.

    >>> result_blocks(ToolResult("call_1", "rain"))
    [TextContent(text='rain')]
    """
    content = result.content
    return list(blocks_of((Text(content),) if isinstance(content, str) else content))
