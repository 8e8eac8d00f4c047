"""Content blocks, of which a message is made, and `ToolMeta`, the description of a tool for a provider.

Every block may carry ``echo``: what its provider wants to see again, unchanged, in the next request, and no other
package needs to understand. An encoder sends the echo of its own provider's messages and leaves out any other's.
"""

from __future__ import annotations

import base64
import mimetypes
import os
import re
from pathlib import Path
from typing import Literal, TypeAlias, final

from msgspec import Struct
from msgspec.structs import force_setattr

from rxworker.errors import ConfigurationError
from rxworker.messages.json import Json, JsonObject, freeze


class OutputFormat(Struct, frozen=True):
    """The required form of an answer: JSON that matches a schema. Each provider has its own way to request it.

    Attributes:
        schema: JSON schema of an object, without ``$ref``.
        name: Its name, for providers that require one.
    """

    schema: JsonObject
    name: str = "output"


class ContentBlock(Struct, frozen=True, tag=True, omit_defaults=True):
    """The base of all content blocks."""


class Text(ContentBlock, frozen=True, tag="text", gc=False):
    """Visible text.

    Attributes:
        text: The text.
        citations: The sources of the text, as the provider sent them.
        echo: Content that the provider requires back.
    """

    text: str
    citations: tuple[JsonObject, ...] = ()
    echo: JsonObject | None = None


class Thinking(ContentBlock, frozen=True, tag="thinking"):
    """The reasoning of the model before its answer.

    Attributes:
        text: The thoughts, or their summary; empty where the provider keeps them to itself.
        signature: The provider's seal on them, which the next request must carry.
        echo: Further content that the provider requires back.
    """

    text: str
    signature: str | None = None
    echo: JsonObject | None = None


class Refusal(ContentBlock, frozen=True, tag="refusal"):
    """Why the model will not answer, in its words."""

    text: str
    echo: JsonObject | None = None


@final
class ToolCall(ContentBlock, frozen=True, tag="tool_call", gc=False):
    """A request of the model to run a tool.

    Attributes:
        id: The id that the result must contain. rxworker generates it if the provider sends none.
        name: The tool's name.
        input: Its arguments; a string for a tool that takes free text.
        echo: Content that the provider requires back.
    """

    id: str
    name: str
    input: JsonObject | str
    echo: JsonObject | None = None


class Image(ContentBlock, frozen=True, tag="image"):
    """An image: its bytes, its address, or the id of an uploaded file. Read one from disk with `Image.from_file`.

    Attributes:
        media_type: For example ``image/png``.
        data: The bytes in base64, without a ``data:`` prefix.
        url: The address of the image, instead of ``data``.
        file_id: The provider's id of an uploaded file, instead of ``data``.
    """

    media_type: str = "image/png"
    data: str | None = None
    url: str | None = None
    echo: JsonObject | None = None
    file_id: str | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Image:
        """Read an image from disk. The extension gives the media type.

        Raises:
            ConfigurationError: The file cannot be read, or its extension is not that of an image.
        """
        return cls(*_read(path, "Image"))


class Document(ContentBlock, frozen=True, tag="document"):
    """A document: its bytes, its address, or the id of an uploaded file. Read one from disk with `Document.from_file`.

    Attributes:
        media_type: For example ``application/pdf``.
        data: The bytes in base64, without a ``data:`` prefix.
        url: The address of the document, instead of ``data``.
        title: Its name, for the model to cite.
        file_id: The provider's id of an uploaded file, instead of ``data``.
        citations: Whether the model cites the document. Only Anthropic has such a switch; others ignore it.
        context: Information about the document for the model, which it does not cite. Only Anthropic; others ignore it.
    """

    media_type: str = "application/pdf"
    data: str | None = None
    url: str | None = None
    title: str | None = None
    echo: JsonObject | None = None
    file_id: str | None = None
    citations: bool = False
    context: str | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], title: str | None = None) -> Document:
        """Read a document from disk. The extension gives the media type.

        Args:
            path: The file.
            title: Its name, for the model to cite; the file's name by default.

        Raises:
            ConfigurationError: The file cannot be read, its extension is unknown, or it is an image.
        """
        return cls(*_read(path, "Document"), title=title or Path(path).name)


@final
class Audio(ContentBlock, frozen=True, tag="audio"):
    """A sound recording that a user or a tool gives. Read one from disk with `Audio.from_file`.

    Attributes:
        media_type: For example ``audio/wav``.
        data: The bytes in base64, without a ``data:`` prefix.
    """

    media_type: str = "audio/wav"
    data: str | None = None

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Audio:
        """Read a recording from disk. The extension gives the media type.

        Raises:
            ConfigurationError: The file cannot be read, or its extension is not that of a recording.
        """
        return cls(*_read(path, "Audio"))


def _read(path: str | os.PathLike[str], kind: str) -> tuple[str, str]:
    """The media type of a file, and its bytes in base64, for a block of this kind."""
    name = os.fspath(path)
    found, encoding = mimetypes.guess_type(name)
    if found is None or encoding is not None:
        raise ConfigurationError(
            f"the media type of {name!r} is not known from its extension; "
            f"pass it: {kind}(media_type, data=base64 of the bytes)"
        )
    fitting = {"image": "Image", "audio": "Audio"}.get(found.partition("/")[0], "Document")
    if kind != fitting and (kind, fitting) != ("Document", "Audio"):
        what = f"{name!r} is {found}, not {kind.lower()}"
        raise ConfigurationError(f"{what}; use {fitting}.from_file")
    try:
        return found, base64.b64encode(Path(path).read_bytes()).decode("ascii")
    except OSError as error:
        raise ConfigurationError(f"{name!r} cannot be read: {error.strerror or error}") from error


ResultBlock: TypeAlias = Text | Image | Document | Audio
"""A block of a tool's result."""
RESULT_BLOCKS = (Text, Image, Document, Audio)
ResultContent: TypeAlias = str | tuple[ResultBlock, ...]
"""The content of a tool's result: a text, or blocks."""


@final
class ToolResult(ContentBlock, frozen=True, tag="tool_result", gc=False):
    """The result of a tool call.

    Attributes:
        tool_use_id: The ``id`` of the call.
        content: Text, or blocks.
        is_error: Whether the call failed; the model may then try something else.
        name: The tool's name, which some providers match by.
    """

    tool_use_id: str
    content: ResultContent = ""
    is_error: bool = False
    name: str = ""

    @classmethod
    def success(cls, tool_use_id: str, content: ResultContent) -> ToolResult:
        """The result of a call that succeeded.

        >>> ToolResult.success("call_1", "done").is_error
        False
        """
        return cls(tool_use_id, content)

    @classmethod
    def error(cls, tool_use_id: str, content: ResultContent) -> ToolResult:
        """The result of a call that failed.

        >>> ToolResult.error("call_1", "no such file").is_error
        True
        """
        return cls(tool_use_id, content, is_error=True)

    @property
    def text(self) -> str:
        """The text of the content, without pictures and documents."""
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content if isinstance(part, Text))


class ServerToolCall(ContentBlock, frozen=True, tag="server_tool_call"):
    """The provider ran a tool of its own. Not ours to run; sent back as it came."""

    id: str
    name: str
    input: Json = None
    echo: JsonObject | None = None


class ServerToolResult(ContentBlock, frozen=True, tag="server_tool_result"):
    """The result of a call of one of the provider's tools."""

    tool_use_id: str = ""
    name: str = ""
    echo: JsonObject | None = None


class OpaqueBlock(ContentBlock, frozen=True, tag="opaque"):
    """A block we do not know, kept whole so that it can be sent back.

    Attributes:
        kind: The provider's name for it.
        echo: The block.
    """

    kind: str
    echo: JsonObject | None = None


@final
class CachePoint(ContentBlock, frozen=True, tag="cache_point"):
    """Everything up to this point may be cached. The model does not see it; providers without cache marks omit it.

    Attributes:
        ttl: The lifetime in the provider's words, for example ``1h``; ``None``: the provider's default.
    """

    ttl: str | None = None


ProviderBlock: TypeAlias = ServerToolCall | ServerToolResult | OpaqueBlock
"""A block that only its provider understands, and is sent back to it."""
Content: TypeAlias = (
    Text | Thinking | Refusal | ToolCall | ToolResult | Image | Document | Audio | ProviderBlock | CachePoint
)
"""Any content block."""


MADE = "rxw_"
"""The beginning of an id that rxworker gave to a call to which the provider gave none."""
AGAIN = "-rxw-"
"""The prefix of the number in the id of a call that arrived with the id of an earlier call of the same response."""
LONGEST_NAME = 64
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""A name of a tool that all providers take."""
NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
"""What such a name does not have."""


def is_made(tool_id: str) -> bool:
    """Whether rxworker made an id.

    >>> is_made("rxw_1"), is_made("call_1")
    (True, False)
    """
    return tool_id.startswith(MADE)


def wire_id(tool_id: str) -> str | None:
    """The id that the provider sent; ``None`` if it sent none.

    >>> wire_id("call_1-rxw-2"), wire_id("rxw_1")
    ('call_1', None)
    """
    return None if is_made(tool_id) else tool_id.partition(AGAIN)[0]


class Grammar(Struct, frozen=True, tag_field="type", tag="grammar"):
    """The rules that a tool's free text must follow. The provider holds the model to them.

    Attributes:
        definition: The grammar, or the regular expression.
        syntax: The language of the definition: ``lark`` or ``regex``.

    >>> Grammar("[0-9]+", "regex").syntax
    'regex'
    """

    definition: str
    syntax: Literal["lark", "regex"] = "lark"


TextFormat: TypeAlias = Literal["text"] | Grammar
"""The format of a tool's free text: any text, or one that follows a grammar."""


class ToolMeta(Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it.

    The fields from ``strict`` on are known to some providers only. A provider leaves out what it does not know, unless
    leaving it out would change what the application requires; then the request raises a ``ConfigurationError``.

    Attributes:
        name: The name for the model.
        description: When and how to use it.
        input_schema: JSON schema of the arguments, an object without ``$ref``. It is a copy of the dict that was given,
            and an edit raises ``TypeError``.
        strict: Whether the provider holds the model to the schema.
        cache_control: A mark: everything up to this tool may be cached.
        defer_loading: Whether the model sees the tool only after a tool search has found it.
        allowed_callers: The callers that may call it: ``direct`` is the model itself, ``programmatic`` is code that the
            model writes and the provider runs. A provider's own word, such as ``code_execution_20260120``, means
            ``programmatic`` to the others. Empty: the provider's default, which is ``direct``.
        input_examples: Arguments of calls, to show to the model; copies, like the schema.
        format: The call's input is a text instead of a JSON object; ``None``: an object. The schema then has one
            member, a string. Providers without free text receive this schema.
        native: A tool that a provider defines itself and the client runs: its ``type`` and settings, for example
            ``{"type": "memory_20250818"}`` of Anthropic. They are sent with the name, in place of the description and
            the schema.
    """

    name: str
    description: str
    input_schema: JsonObject
    strict: bool = False
    cache_control: CachePoint | None = None
    defer_loading: bool = False
    allowed_callers: tuple[str, ...] = ()
    input_examples: tuple[JsonObject, ...] = ()
    format: TextFormat | None = None
    native: JsonObject | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "input_schema", freeze(self.input_schema))
        if self.native is not None:
            force_setattr(self, "native", freeze(self.native))
        if self.input_examples:
            force_setattr(self, "input_examples", tuple(map(freeze, self.input_examples)))
