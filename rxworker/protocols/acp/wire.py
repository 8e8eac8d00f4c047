"""The messages of the Agent Client Protocol, version 1, as they go over the wire.

A field that is absent is left out, never null.

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


# Updates of a session


class Chunk(AcpStruct, frozen=True):
    """A piece of a message."""

    content: ContentBlock
    message_id: str | None = None


class UserChunk(Chunk, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    """A piece of a message of the user's, when a session is loaded."""


class AgentChunk(Chunk, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """A piece of an answer."""


class ThoughtChunk(Chunk, frozen=True, tag_field="sessionUpdate", tag="agent_thought_chunk"):
    """A piece of the model's reasoning."""


class CallContent(AcpStruct, frozen=True, tag="content"):
    """Content that a call has produced."""

    content: ContentBlock


class Diff(AcpStruct, frozen=True, tag="diff"):
    """A change of a file. Without an old text the file is new."""

    path: str
    new_text: str
    old_text: str | None = None


class Location(AcpStruct, frozen=True):
    """A place in a file that a call reads or changes."""

    path: str
    line: int | None = None


class CallFields(AcpStruct, frozen=True):
    """The fields that show a call; for a call that is shown already, only those that have changed."""

    tool_call_id: str
    title: str | None = None
    kind: ToolKind | None = None
    status: CallStatus | None = None
    content: list[CallContent | Diff] | None = None
    locations: list[Location] | None = None
    raw_input: Json = None
    raw_output: Json = None


class CallOpen(CallFields, frozen=True, tag_field="sessionUpdate", tag="tool_call"):
    """A call that was not shown before. It has a title."""


class CallUpdate(CallFields, frozen=True, tag_field="sessionUpdate", tag="tool_call_update"):
    """A change of a call."""


class PlanEntry(AcpStruct, frozen=True, omit_defaults=False):
    """A step of a plan."""

    content: str
    priority: Literal["high", "medium", "low"]
    status: Literal["pending", "in_progress", "completed"]


class PlanUpdate(AcpStruct, frozen=True, tag_field="sessionUpdate", tag="plan"):
    """The plan, which replaces the one before."""

    entries: list[PlanEntry]


class SessionInfoUpdate(AcpStruct, frozen=True, tag_field="sessionUpdate", tag="session_info_update"):
    """The title of the session."""

    title: str


Update: TypeAlias = UserChunk | AgentChunk | ThoughtChunk | CallOpen | CallUpdate | PlanUpdate | SessionInfoUpdate
"""Any update of a session."""


class SessionNotification(AcpStruct, frozen=True):
    """``session/update``: an update for the client."""

    session_id: str
    update: Update


# Requests of the client, and their results


class Implementation(AcpStruct, frozen=True):
    """The name and the version of a program."""

    name: str
    version: str
    title: str | None = None


class Initialize(AcpStruct, frozen=True):
    """``initialize``: the client's newest version of the protocol."""

    protocol_version: int


class Available(AcpStruct, frozen=True):
    """Its presence states that a method is available."""


class PromptCapabilities(AcpStruct, frozen=True):
    """The content of prompts, besides texts and links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


class McpCapabilities(AcpStruct, frozen=True):
    """The transports of MCP servers, besides standard input and output."""

    http: bool = False
    sse: bool = False


class SessionCapabilities(AcpStruct, frozen=True):
    """The methods of sessions that are not required."""

    list: Available | None = None
    resume: Available | None = None
    close: Available | None = None
    delete: Available | None = None


class AgentCapabilities(AcpStruct, frozen=True):
    """The capabilities of the agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = PromptCapabilities()
    mcp_capabilities: McpCapabilities = McpCapabilities()
    session_capabilities: SessionCapabilities = SessionCapabilities()


class Initialized(AcpStruct, frozen=True, omit_defaults=False):
    """The result of ``initialize``."""

    protocol_version: int
    agent_capabilities: AgentCapabilities
    agent_info: Implementation
    auth_methods: tuple[()] = ()


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


class SessionInfo(AcpStruct, frozen=True):
    """A session in a list."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class SessionList(AcpStruct, frozen=True):
    """The result of ``session/list``."""

    sessions: list[SessionInfo]


class Prompt(AcpStruct, frozen=True):
    """``session/prompt``: a message of the user's."""

    session_id: str
    prompt: list[ContentBlock]


class PromptResult(AcpStruct, frozen=True):
    """The result of ``session/prompt``."""

    stop_reason: StopReason


class Empty(AcpStruct, frozen=True):
    """A result without content."""


# Requests to the client


class PermissionOption(AcpStruct, frozen=True):
    """An answer that the user may choose."""

    option_id: str
    name: str
    kind: OptionKind


class PermissionRequest(AcpStruct, frozen=True):
    """``session/request_permission``: may this call run?"""

    session_id: str
    tool_call: CallFields
    options: list[PermissionOption]


class Outcome(AcpStruct, frozen=True, forbid_unknown_fields=True):
    """The user's choice: ``selected`` with an option, or ``cancelled``."""

    outcome: Literal["selected", "cancelled"]
    option_id: str = ""
    meta: Json = field(default=None, name="_meta")


class PermissionResult(AcpStruct, frozen=True, forbid_unknown_fields=True):
    """The result of ``session/request_permission``."""

    outcome: Outcome
    meta: Json = field(default=None, name="_meta")
