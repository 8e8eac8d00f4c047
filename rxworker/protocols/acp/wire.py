"""What a client sends in the Agent Client Protocol, version 1, and the words of the protocol.

What is sent to a client is a dict, with the names on the wire; a field that is absent is left out, never null.

Source: https://agentclientprotocol.com/protocol/v1/schema. Only what a worker uses is here; other fields of a client
are ignored.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from rxworker.messages import Json

PROTOCOL_VERSION = 1
"""The version of the protocol that is spoken."""

ToolKind: TypeAlias = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "other"]
CallStatus: TypeAlias = Literal["pending", "in_progress", "completed", "failed"]
StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]
OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class AcpStruct(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The base of what goes over the wire."""


# Content


class TextContent(AcpStruct, frozen=True, tag="text"):
    """A text."""

    text: str


class ImageContent(AcpStruct, frozen=True, tag="image"):
    """A picture, in base64."""

    data: str
    mime_type: str


class AudioContent(AcpStruct, frozen=True, tag="audio"):
    """A sound recording, in base64."""

    data: str
    mime_type: str


class ResourceLink(AcpStruct, frozen=True, tag="resource_link"):
    """A file or another resource that the user mentions."""

    uri: str
    name: str
    title: str | None = None


class ResourceContents(AcpStruct, frozen=True):
    """The content of a resource: a text, or bytes in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class EmbeddedResource(AcpStruct, frozen=True, tag="resource"):
    """A resource that the user mentions, with its content."""

    resource: ResourceContents


ContentBlock: TypeAlias = TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource


# Requests of the client


class Initialize(AcpStruct, frozen=True):
    """``initialize``: the client's newest version of the protocol."""

    protocol_version: int


class NameValue(AcpStruct, frozen=True):
    """An environment variable, or a header of HTTP."""

    name: str
    value: str


class McpServer(AcpStruct, frozen=True):
    """An MCP server that the client wants the agent to connect: a program, or an address."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: list[str] | None = None
    env: list[NameValue] | None = None
    url: str = ""
    headers: list[NameValue] | None = None


class NewSession(AcpStruct, frozen=True):
    """``session/new``: begin a session in a folder."""

    cwd: str
    mcp_servers: list[McpServer] | None = None


class OldSession(AcpStruct, frozen=True):
    """``session/load`` and ``session/resume``: continue a session, with and without its history."""

    session_id: str
    cwd: str
    mcp_servers: list[McpServer] | None = None


class SessionRef(AcpStruct, frozen=True):
    """A session.

    The parameters of ``session/cancel``, ``session/close`` and ``session/delete``, and the result of ``session/new``.
    """

    session_id: str


class ListSessions(AcpStruct, frozen=True):
    """``session/list``: the sessions of a folder, or all."""

    cwd: str | None = None


class Prompt(AcpStruct, frozen=True):
    """``session/prompt``: a message of the user's."""

    session_id: str
    prompt: list[ContentBlock]


# Answers of the client


class Outcome(AcpStruct, frozen=True, forbid_unknown_fields=True):
    """The user's choice: ``selected`` with an option, or ``cancelled``."""

    outcome: Literal["selected", "cancelled"]
    option_id: str = ""
    meta: Json = field(default=None, name="_meta")


class PermissionResult(AcpStruct, frozen=True, forbid_unknown_fields=True):
    """The result of ``session/request_permission``."""

    outcome: Outcome
    meta: Json = field(default=None, name="_meta")
