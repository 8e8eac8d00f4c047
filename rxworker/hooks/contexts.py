"""The contexts of the points of the loop.

What a hook receives, and how it changes messages, calls and results in place.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import msgspec
from msgspec.structs import replace

from rxworker.errors import InvalidArgumentError
from rxworker.events.arguments import arguments_object, changed_by_json, copy_arguments, decode_arguments
from rxworker.hooks.context import ROLES, Change, HookContext, changed
from rxworker.hooks.points import HookPoint
from rxworker.messages import (
    Content,
    Conversation,
    Json,
    JsonObject,
    Message,
    Text,
    ToolCall,
    ToolMeta,
    ToolResult,
    validate,
)
from rxworker.messages.content import RESULT_BLOCKS, ContentBlock

if TYPE_CHECKING:
    from rxworker.tools import Tool


@dataclass(kw_only=True, repr=False, eq=False)
class MessageSendContext(HookContext):
    """Before a request.

    Attributes:
        messages: What is about to be sent. Changing the list, or arguments of calls in it, changes this request, and
            only that; what is put into the conversation with ``add_message`` stays, and is sent as well.
        system: The system text of this request.
        edits: The hooks that have changed something so far: the name of each, and the conversation and the tools that
            it received.
    """

    point: ClassVar[HookPoint | None] = HookPoint.ON_MESSAGE_SEND
    changeable: ClassVar[tuple[str, ...]] = ("messages", "system")

    messages: list[Message] = field(init=False)
    system: str | None = field(init=False)
    # What hooks did to the conversation, to be done again to a request that is brought back.
    _for_good: list[Callable[[list[Message]], list[Message]]] = field(
        init=False, default_factory=list[Callable[[list[Message]], list[Message]]]
    )
    _before: tuple[Message, ...] = field(init=False)
    # What each hook has received that has changed something.
    edits: list[tuple[str, Conversation, tuple[ToolMeta, ...]]] = field(
        init=False, default_factory=list[tuple[str, Conversation, tuple[ToolMeta, ...]]]
    )
    _seen: tuple[Conversation, tuple[ToolMeta, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.system = self.conversation.system
        self._begin(self.conversation.sent)
        super().__post_init__()

    def _begin(self, conversation: Conversation) -> None:
        """Begin with this as what is about to be sent."""
        self.messages = [_of_its_own(message) for message in conversation.messages]
        self._assign("_before", tuple(self.messages))
        self._assign("_seen", (conversation, self.tools))

    def note(self, hook: str) -> None:
        """Note what a hook has changed."""
        before, tools = self._seen
        # Of its own, since a later hook may change arguments in place.
        messages = tuple(map(_of_its_own, self.messages))
        if (
            messages != before.messages
            or self.system != before.system
            or self.tools != tools
            or any(map(_is_turned, messages, before.messages))
        ):
            self.edits.append((hook, before, tools))
            self._assign("_seen", (Conversation(messages, self.system), self.tools))

    def check(self) -> None:
        """Check that the request can be sent.

        An answer of the assistant may be its end: a model that can do so continues it.

        Raises:
            HookError: The hook has left something other than messages, or a conversation that a provider refuses.
        """
        messages, system = cast("object", self.messages), cast("object", self.system)
        if not isinstance(messages, list | tuple):
            raise self._broken(f"the messages are {messages!r:.60}, which is not a list")
        for message in cast("list[object]", messages):
            if not isinstance(message, Message):
                raise self._broken(f"the messages hold {message!r:.60}, which is not a Message")
            if (what := odd_message(message)) is not None:
                raise self._broken(f"the messages hold {what}")
        if system is not None and (odd := _odd_text(system)) is not None:
            raise self._broken(f"the system text is {odd}")
        if not messages:
            raise self._broken("no message is left: return Cancel(...) to send nothing")
        before, after = self._before, tuple(self.messages)
        if after == before:
            return
        self._assign("_before", after)
        complaints = validate(Conversation(after))
        # Of a conversation that was broken before, the hook may repair a part.
        if complaints and not validate(Conversation(before)):
            raise self._broken(f"a provider refuses the messages: {'; '.join(complaints)}")

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Put messages at the end of the conversation and of this request."""
        added = tuple(messages)
        super().add_messages(added)
        self.messages.extend(added)
        self._for_good.append(lambda before: [*before, *added])

    def rewrite_conversation(self, change: Change) -> None:
        """Change messages that the conversation keeps, for good, and those of this request.

        See `HookContext.rewrite_conversation`.
        """
        messages = changed(self.messages, change)
        super().rewrite_conversation(change)
        self.messages[:] = messages
        self._for_good.append(lambda before: changed(before, change))

    @property
    def content(self) -> str:
        """The text of the user's last message."""
        place = self._spoken()
        return "" if place is None else self.messages[place].text

    def set_content(self, content: str) -> None:
        """Replace the text of the user's last message in this request; pictures and the like stay where they are."""
        place = self._spoken()
        if place is None:
            self.messages.append(Message.user(content))
            return
        said = self.messages[place]
        self.messages[place] = replace(said, content=_with_text(said.content, content))

    def _spoken(self) -> int | None:
        """The index of the user's last message. Tool results do not count."""
        for place in range(len(self.messages) - 1, -1, -1):
            message = self.messages[place]
            if message.role == "user" and not message.tool_results:
                return place
        return None

    def checkpoint(self) -> Callable[[], None]:
        """Remember the request. What was done to the conversation since is done to it nevertheless."""
        # Of their own again, since the hook may change the arguments in place.
        messages, system = [*map(_of_its_own, self.messages)], self.system
        before = len(self._for_good)

        def restore() -> None:
            self.messages, self.system = messages, system
            for again in self._for_good[before:]:
                self.messages = again(self.messages)

        return restore


def odd_message(message: Message) -> str | None:
    """What is wrong with the types in a message, if anything. A type checker finds it before, where one is used."""
    if message.role not in ROLES:
        return f"a message of the role {message.role!r}; roles are: {', '.join(ROLES)}"
    content = cast("object", message.content)
    if not isinstance(content, list | tuple):
        return f"a message with the content {content!r:.60}: write Message.user('...')"
    for block in cast("list[object]", content):
        if not isinstance(block, ContentBlock):
            return f"a message with {block!r:.60} in its content, which is not a content block"
        if isinstance(block, Text) and (odd := _odd_text(block.text)) is not None:
            return f"a message with {odd}"
        found = changed_by_json(block.input) if isinstance(block, ToolCall) else None
        if found is not None:
            return f"a call whose input at {found[0]} is {found[1]}"
    return None


def _odd_text(text: object) -> str | None:
    """What is wrong with a text, if anything: it is not a string, or cannot be sent."""
    if not isinstance(text, str):
        return f"{text!r:.60}, which is not a string"
    try:
        # In most texts there is nothing to encode.
        _ = text.isascii() or text.encode()
    except UnicodeEncodeError:
        return "a text with half of a surrogate pair, which cannot be sent"
    return None


def _of_its_own(message: Message) -> Message:
    """The message, with a copy of what can be changed in place: the arguments of calls."""
    if not message.tool_calls:
        return message
    return replace(message, content=tuple(map(_copied, message.content)))


def _is_turned(message: Message, before: Message) -> bool:
    """Whether the arguments of a call differ in what a cache sees, and `==` does not.

    The order of their members, or 1 in place of 1.0.
    """
    pairs = zip(message.tool_calls, before.tool_calls, strict=True)
    return any(_differs(one.input, other.input) for one, other in pairs)


def _differs(one: Json, other: Json) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return [*one] != [*other] or any(map(_differs, one.values(), other.values()))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return any(map(_differs, one, other))
    return one.__class__ is not other.__class__


def _copied(block: Content) -> Content:
    if not isinstance(block, ToolCall) or isinstance(block.input, str):
        return block
    return replace(block, input=copy_arguments(block.input))


def _with_text(blocks: tuple[Content, ...], text: str) -> tuple[Content, ...]:
    first = next((n for n, block in enumerate(blocks) if isinstance(block, Text)), len(blocks))
    kept = [block for block in blocks[first:] if not isinstance(block, Text)]
    return (*blocks[:first], Text(text), *kept)


@dataclass(kw_only=True, repr=False, eq=False)
class CallContext(HookContext):
    """Before or after a tool call.

    Attributes:
        call: The call.
        tool: The tool itself.
    """

    call: ToolCall
    tool: Tool
    _given: ToolCall = field(init=False)

    def __post_init__(self) -> None:
        self._given = self.call
        super().__post_init__()

    @property
    def call_id(self) -> str | None:
        """The id of the call."""
        return self._given.id

    @property
    def meta(self) -> ToolMeta:
        """The tool's description for the model; it cannot be changed."""
        return self.tool.meta

    @property
    def tool_name(self) -> str | None:
        """The name of the tool that is called."""
        return self.call.name

    @property
    def concerned(self) -> tuple[str, ...]:
        """The name of the tool that is called."""
        return (self.call.name,)


@dataclass(kw_only=True, repr=False, eq=False)
class ToolCallContext(CallContext):
    """Before a tool call. The ``input`` of the call may be changed in place, or the call replaced.

    Attributes:
        allowed: The names of hooks that do not pause the run for this call, whatever they return; ``requires_approval``
            for the policy of the tool. See `always_allow`.
        granted: Whether a person always allows the calls of the tool for which a hook of this name pauses, read when it
            does.
    """

    point: ClassVar[HookPoint | None] = HookPoint.BEFORE_TOOL_CALL
    changeable: ClassVar[tuple[str, ...]] = ("call", "input")

    allowed: set[str] = field(default_factory=set[str])
    granted: Callable[[str], Awaitable[bool]] | None = None
    _of_text: tuple[str, JsonObject] | None = field(init=False, default=None)

    async def allows(self, hook: str) -> bool:
        """Whether this call is not paused for a hook of this name, since a hook or a person has allowed it."""
        return hook in self.allowed or (self.granted is not None and await self.granted(hook))

    def prepare(self) -> None:
        """Give the next hook arguments of its own.

        A hook before it, or a watcher, may still hold the others, and change them behind its back.
        """
        self.call = replace(self.call, input=copy_arguments(self.call.input))
        if self._of_text is not None:
            self._assign("_of_text", None)

    def check(self) -> None:
        """Check that it is still this call.

        A text that the hook left as its arguments is decoded, so that the next hook and the tool receive an object.

        Raises:
            HookError: The hook has left something other than a call, a call with another id or name, or arguments that
                are not valid.
        """
        call, known = cast("object", self.call), self._given
        # The matchers of the next hooks, approvals, and the result of the call go by its name and its id.
        if not isinstance(call, ToolCall):
            raise self._broken(f"the call is {call!r:.60}, which is not a ToolCall", kind="verdict")
        if call.id != known.id:
            raise self._broken(
                f"the call has the id {call.id!r} instead of {known.id!r}, which its result must name", kind="verdict"
            )
        if call.name != known.name:
            raise self._broken(
                f"the call is one of {call.name!r} instead of {known.name!r}, which hooks and a person may have "
                "approved",
                kind="verdict",
            )
        given = self.call.input
        if self._of_text is not None and self._of_text[0] is given:
            given = self._text_in(self._of_text[1])
        try:
            left = decode_arguments(given, self.meta)
        except InvalidArgumentError as error:
            raise self._broken(f"there are {error.message}") from error
        if left is not self.call.input:
            self.call = replace(self.call, input=left)

    def _text_in(self, changed: JsonObject) -> JsonObject | str:
        """The free text that is the only member of an object.

        The object itself if a hook has made another one of it.
        """
        for text in changed.values():
            if isinstance(text, str) and changed == arguments_object(text, self.meta):
                return text
        return changed

    @property
    def input(self) -> JsonObject:
        """The arguments, to be changed in place.

        Free text is the only member, under the name of the tool's parameter.
        """
        given = self.call.input
        if not isinstance(given, str):
            return given
        if self._of_text is None or self._of_text[0] is not given:
            made = arguments_object(given, self.meta)
            self._assign("_of_text", (given, made))
            return made
        return self._of_text[1]

    @input.setter  # noqa: A003 - the word that calls use
    def input(self, value: JsonObject) -> None:
        self.call = replace(self.call, input=value)

    @property
    def tool_args(self) -> JsonObject | None:
        """The arguments, as in ``input``."""
        return self.input

    @property
    def content(self) -> str:
        """The arguments as JSON text; of a tool that takes free text, that."""
        given = self.call.input
        return given if isinstance(given, str) else msgspec.json.encode(given).decode()

    def set_content(self, content: str) -> None:
        """Replace the arguments by those of a JSON text; of a tool that takes free text, the text.

        Raises:
            ValueError: The text is not a JSON object.
        """
        try:
            given = decode_arguments(content, self.meta)
        except InvalidArgumentError as error:
            raise ValueError(error.message) from error
        self.call = replace(self.call, input=given)


@dataclass(kw_only=True, repr=False, eq=False)
class ToolResultContext(CallContext):
    """After a tool call.

    Attributes:
        result: The result of the call; may be replaced.
        finished_by: The name of the hook that has finished the run, if one has. The hooks after it run nevertheless.
    """

    point: ClassVar[HookPoint | None] = HookPoint.AFTER_TOOL_CALL
    changeable: ClassVar[tuple[str, ...]] = ("result",)

    result: ToolResult
    finished_by: str = field(init=False, default="")

    def check(self) -> None:
        """Check that it is still a result of this call.

        Raises:
            HookError: The hook has left something other than a result, or that of another call.
        """
        if (odd := _odd_result(self.result, self.call.id)) is not None:
            raise self._broken(f"the {odd}")

    @property
    def tool_args(self) -> JsonObject | None:
        """The arguments that the tool received; ``None`` if they could not be decoded, so that it did not run."""
        given = self.call.input
        if isinstance(given, str) and self.meta.format is None:
            return None
        return arguments_object(given, self.meta)

    @property
    def tool_result(self) -> str | None:
        """The text of the result."""
        return self.result.text

    @property
    def content(self) -> str:
        """The text of the result."""
        return self.result.text

    def set_content(self, content: str) -> None:
        """Replace the text of the result; whether it is an error stays as it is."""
        self.result = replace(self.result, content=content)

    def finish(self, hook: str) -> None:
        """Note that a hook has finished the run; made for the code that runs hooks."""
        if not self.finished_by:
            self._assign("finished_by", hook)

    def withhold(self, reason: str) -> None:
        """Let the model read an error in place of the result."""
        self.result = ToolResult(self.call.id, reason, is_error=True, name=self.call.name)


def _odd_result(left: object, call: str) -> str | None:
    """What is wrong with what a hook has left as the result of a call, if anything."""
    if not isinstance(left, ToolResult):
        return f"result is {left!r:.60}, which is not a ToolResult; for a text use set_content(...)"
    if left.tool_use_id != call:
        return f"result is for the call {left.tool_use_id!r} instead of {call!r}"
    blocks = cast("Iterable[object]", left.content if isinstance(left.content, list | tuple) else (left.content,))
    if not isinstance(left.content, str) and not all(isinstance(block, RESULT_BLOCKS) for block in blocks):
        return f"content of the result is {left.content!r:.60}, which is neither a text nor content blocks"
    return None


@dataclass(kw_only=True, repr=False, eq=False)
class TurnEndContext(HookContext):
    """After a response without tool calls. The hook reads the conversation and may request another round.

    Attributes:
        since: How many messages the conversation had when the run began.
        called: The names of the tools that the model has called in this run, also of calls that the conversation does
            not show any more.
    """

    point: ClassVar[HookPoint | None] = HookPoint.ON_TURN_END

    since: int | None = None
    called: tuple[str, ...] = ()

    @property
    def message(self) -> Message:
        """The model's last message; an empty one if there is none."""
        for message in reversed(self.conversation.messages):
            if message.role == "assistant":
                return message
        return Message.assistant()

    @property
    def text(self) -> str:
        """The visible text of the model's last message."""
        return self.message.text

    @property
    def content(self) -> str:
        """The visible text of the model's last message."""
        return self.message.text

    @property
    def concerned(self) -> tuple[str, ...]:
        """The names of the tools called in this run, each once.

        Those in the conversation come first, from its end back to the message of the user's that the run began with;
        then the others of ``called``.
        """
        messages = self.message_history
        began = len(messages) if self.since is None else self.since
        names: dict[str, None] = {}
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            names.update((call.name, None) for call in message.tool_calls)
            if place < began and message.role == "user" and not message.tool_results:
                break
        names.update(dict.fromkeys(self.called))
        return tuple(names)


@dataclass(kw_only=True, repr=False, eq=False)
class AbortContext(HookContext):
    """When a run ends without a result.

    Attributes:
        cause: ``cancel``, ``error``, ``abort`` or ``limit``.
        reason: Shown to users; not interpreted.
        error: The exception that awaiting the run raises.
    """

    point: ClassVar[HookPoint | None] = HookPoint.ON_ABORT

    cause: Literal["cancel", "error", "abort", "limit"]
    reason: str
    error: Exception

    @property
    def content(self) -> str:
        """Why the run ends."""
        return self.reason
