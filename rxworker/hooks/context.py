"""What hooks receive: a context that every hook has, and one for each point of the loop.

A context has the conversation, the tools, the workspace, and methods to send messages and run commands; that of a point
has what the hook may change in place: messages, a call, or a result.
"""

from __future__ import annotations

import copy
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast, overload

import msgspec
from msgspec.structs import replace

from rxworker.errors import HookError, InvalidArgumentError, LocalProtocolError, nearest
from rxworker.events import ConversationReplace, CustomEvent, HookMessage, LoopHold, MessageAdd
from rxworker.events.arguments import arguments_object, changed_by_json, copy_arguments, decode_arguments
from rxworker.events.pause import Begun, Wait
from rxworker.hooks.command import CommandResult, run_command
from rxworker.hooks.points import HookPoint
from rxworker.messages import (
    Content,
    Conversation,
    Json,
    JsonObject,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
    validate,
)
from rxworker.messages.content import RESULT_BLOCKS, ContentBlock
from rxworker.messages.json import is_list
from rxworker.messages.message import Role
from rxworker.messages.settings import awaited, check_plain
from rxworker.tools.base import until

if TYPE_CHECKING:
    from rxworker.tools import SharedState, Tool, Toolbox

Change: TypeAlias = Callable[[Message], Message | None]
"""Returns the message, another one in its place, or ``None`` to take it out."""

# A provider checks what it has made itself: a changed one is refused, and with it every later request.
SEALED = (Thinking, ServerToolCall, ServerToolResult, OpaqueBlock)


def rewrite(conversation: Conversation, change: Change) -> Conversation:
    """The conversation with its messages changed.

    Raises:
        LocalProtocolError: A provider would refuse the result; the message has the reason.
        TypeError: The change returned something other than a message or ``None``.

    >>> told = Conversation((Message.user("my password is hunter2"),))
    >>> rewrite(told, lambda message: Message.user(message.text.replace("hunter2", "***"))).messages[0].text
    'my password is ***'
    """
    rewritten = conversation.with_messages(changed(conversation.messages, change))
    complaints = [] if validate(conversation) else validate(rewritten)
    if complaints:
        raise _refused("; ".join(complaints))
    return rewritten


def changed(messages: Sequence[Message], change: Change) -> list[Message]:
    """The messages, each changed, without those that are taken out.

    Raises:
        LocalProtocolError: A message has another role, or holds other blocks that a provider has made.
        TypeError: The change returned something other than a message or ``None``.
    """
    kept: list[Message] = []
    for place, message in enumerate(messages):
        left = cast("object", change(message))
        if left is None:
            continue
        if not isinstance(left, Message):
            raise TypeError(f"message {place} became {left!r}, which is not a Message; write Message.user('...')")
        for complaint in _complaints(message, left):
            raise _refused(f"message {place}: {complaint}")
        kept.append(left)
    return kept


def _complaints(message: Message, left: Message) -> Iterator[str]:
    if left.role != message.role:
        yield f"its role {message.role} became {left.role}"
    if _names(left) != _names(message):
        yield "its tool calls became others; change their input, or take out the message and the one with the results"
    for block in left.content:
        if isinstance(block, SEALED) and block not in message.content:
            kind = cast("type[object]", type(block)).__name__
            yield f"a {kind} was changed, which its provider has sealed; take it out instead"


def _names(message: Message) -> list[tuple[str, str]]:
    return [(call.id, call.name) for call in message.tool_calls]


def _refused(why: str) -> LocalProtocolError:
    return LocalProtocolError(f"the conversation cannot be rewritten so: {why}")


Emit = Callable[[HookMessage | MessageAdd | ConversationReplace | LoopHold | CustomEvent], None]
CallTool: TypeAlias = Callable[[str, JsonObject], Awaitable[ToolResult]]
"""Runs a tool by its name and arguments, for a hook."""


ROLES = typing.get_args(Role)
INSTEAD = {
    "content": "use set_content(text)",
    "tool_result": "use set_content(text), or assign result",
    "tool_args": "change or assign input",
    "message": "use rewrite_conversation(change)",
    "text": "use rewrite_conversation(change)",
    "conversation": "use add_message(message) or rewrite_conversation(change)",
    "message_history": "use add_message(message) or rewrite_conversation(change)",
    "variables": "use set_variable(name, value)",
    "shared": "use set_shared_state(value)",
    "shared_state": "use set_shared_state(value)",
    "allowed": "add to it",
}
"""What to do in place of an assignment that would have no effect."""

REWRITTEN = (HookPoint.ON_MESSAGE_SEND, HookPoint.ON_TURN_END)
"""Where the conversation can be rewritten: no call waits for its result there."""


@dataclass(kw_only=True, repr=False, eq=False)
class HookContext:
    """The fields that every hook receives, made by the loop of a run.

    What a hook assigns has an effect: anything else is refused with an error.

    Attributes:
        changeable: The names that a hook may assign.
        conversation: All messages so far.
        emit: Writes an event into the records of the run, such as a `CustomEvent`; the methods below do it for others.
        variables: Shared by the hooks and tools of a run, over all its turns; anything, by name. A run inside this one
            has its own. A paused run keeps them, see `Paused`.
        run_id: The run's id.
        turn: The turn's number, from 1; after a pause it counts on.
        hook: The name of the hook that is running; after the hooks, of the one that gave the verdict.
        workspace: The folder that the run works in.
        labels: The labels of the run, such as its tenant: ``context.labels.get("tenant")``.
        conversation_id: The id of the conversation: the same for all runs of a session, and for those that continue it.
        toolbox: The worker's tools.
        call_tool: Runs one of them; ``run_tool`` does it for you.
        shared: The state that tools and hooks share with user interfaces; the methods below read and set it for you.
        reached: The names of the hooks of this point that come before this one, and its own; those in chains as
            ``chain/hook``.
        spared: Hooks that do not run again after a pause: the name of each, and how many of the same name come before
            it.
        held: What a hook has waited for before the run paused for it, and its name as the state.
        can_wait: Whether `until` pauses the run: it has a log, and is not inside another one.
        passed: What the hooks have waited for since, by their names.
    """

    point: ClassVar[HookPoint | None] = None
    changeable: ClassVar[tuple[str, ...]] = ()
    _is_made: ClassVar[bool] = False

    conversation: Conversation
    emit: Emit
    variables: dict[str, object] = field(default_factory=dict[str, object])
    run_id: str = ""
    turn: int = 0
    hook: str = ""
    workspace: Path = field(default_factory=Path)
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    conversation_id: str = ""
    toolbox: Toolbox | None = None
    call_tool: CallTool | None = None
    shared: SharedState | None = None
    reached: list[str] = field(default_factory=list[str])
    spared: frozenset[tuple[str, int]] = frozenset()
    held: Begun | None = None
    can_wait: bool = False
    passed: dict[str, list[tuple[Wait, Json]]] = field(default_factory=dict[str, list[tuple[Wait, Json]]])

    def __post_init__(self) -> None:
        """The fields are assigned; from here on only those are that a hook may assign."""
        object.__setattr__(self, "_is_made", True)

    def __setattr__(self, name: str, value: object) -> None:
        if self._is_made and name not in self.changeable:
            raise AttributeError(self._not_assigned(name), name=name, obj=self)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{name!r} of a {type(self).__name__} cannot be deleted", name=name, obj=self)

    def _assign(self, name: str, value: object) -> None:
        """Assign a field that a hook cannot assign."""
        object.__setattr__(self, name, value)

    def _not_assigned(self, name: str) -> str:
        kind, some = type(self).__name__, ", ".join(self.changeable) or "nothing"
        public = [known for known in dir(self) if not known.startswith("_")]
        if name in public:
            instead = INSTEAD.get(name, f"here a hook may assign: {some}")
            return f"{name!r} of a {kind} cannot be assigned: {instead}"
        likely = nearest(name, self.changeable) or nearest(name, public)
        return f"a {kind} has no attribute {name!r}{likely or f'; here a hook may assign: {some}'}"

    @property
    def content(self) -> str:
        """The text that this point is about: the user's, the arguments, the result, or the model's answer."""
        return ""

    def set_content(self, content: str) -> None:
        """Replace that text, where the point lets it be changed.

        Raises:
            LocalProtocolError: It does not.
        """
        where = "here" if self.point is None else f"at {self.point.value}"
        raise LocalProtocolError(f"the content cannot be changed {where}; {len(content)} characters were given")

    @property
    def message_history(self) -> tuple[Message, ...]:
        """All messages so far."""
        return self.conversation.messages

    @property
    def tool_name(self) -> str | None:
        """The name of the tool that is called; ``None`` where none is."""
        return None

    @property
    def tool_args(self) -> JsonObject | None:
        """The arguments of the call; ``None`` where there is none, or where they are not an object."""
        return None

    @property
    def tool_result(self) -> str | None:
        """The text of the call's result; ``None`` where there is none yet."""
        return None

    @property
    def call_id(self) -> str | None:
        """The id of the call that this point is about; ``None`` where none is."""
        return None

    def prepare(self) -> None:
        """Prepare the values that the next hook may change."""

    def check(self) -> None:
        """Check the values that the hook assigned, before anything else reads them.

        Raises:
            HookError: The run cannot continue with it.
        """

    def note(self, hook: str) -> None:
        """Note what a hook has changed, after `check`; made for the code that runs hooks."""

    def _broken(self, what: str, kind: Literal["failure", "verdict"] = "failure") -> HookError:
        """The error of a hook that has left something with which the run cannot continue."""
        point = "" if self.point is None else self.point.value
        return HookError(f"after hook {self.hook!r} {what}", hook=self.hook, point=point, kind=kind)

    @property
    def concerned(self) -> tuple[str, ...]:
        """The names of the tools that a matcher is held against."""
        return ()

    @property
    def tools(self) -> tuple[ToolMeta, ...]:
        """The descriptions of the tools for the model."""
        return () if self.toolbox is None else self.toolbox.metas

    def list_tool_names(self) -> list[str]:
        """The names of the tools, in order."""
        return [meta.name for meta in self.tools]

    def get_tool(self, name: str) -> Tool | None:
        """The tool of that name."""
        return None if self.toolbox is None else self.toolbox.get(name)

    def get_variable(self, key: str, default: object = None) -> object:
        """The value under this name in this run."""
        return self.variables.get(key, default)

    def set_variable(self, key: str, value: object) -> None:
        """Put something under a name, for the hooks and tools of this run."""
        self.variables[key] = value

    @property
    def shared_state(self) -> Json:
        """A copy of the state that the tools and hooks of the run share with user interfaces.

        ``None`` if there is none.
        """
        return None if self.shared is None else self.shared.value

    def set_shared_state(self, value: object, path: str = "") -> None:
        """Set the shared state, or a place in it; watchers see it at once, and the model does not.

        Args:
            value: Anything that has a JSON form.
            path: The place, as a JSON Pointer such as ``/steps/0``; ``/steps/-`` adds to an array. All that is around
                it must exist.

        Raises:
            LocalProtocolError: The value has no JSON form or is longer than `MAX_SHARED_STATE`, there is no such place,
                or the run has ended.
        """
        self._expect_shared().set(value, path)

    def remove_shared_state(self, path: str) -> None:
        """Remove a member of an object of the shared state, or an item of an array.

        Raises:
            LocalProtocolError: There is no such place, or the run has ended.
        """
        self._expect_shared().remove(path)

    def _expect_shared(self) -> SharedState:
        if self.shared is None:
            raise LocalProtocolError("there is no worker here whose state could be shared")
        return self.shared

    async def run_tool(self, name: str, args: JsonObject | None = None) -> ToolResult:
        """Run a tool for the hook's own use. The model does not receive it, and hooks are not called for it.

        The watchers get a debug message. What goes wrong, an unknown name included, is in the result.

        Raises:
            LocalProtocolError: The context belongs to no worker.
        """
        if self.call_tool is None:
            raise LocalProtocolError(f"there is no worker here that could run the tool {name!r}")
        given = dict(args or {})
        result = await awaited(self.call_tool(name, given))
        self.send_debug(f"ran {name}", {"args": given, "is_error": result.is_error})
        return result

    async def run_command(
        self,
        command: str | Sequence[str],
        *,
        shell: bool = False,
        timeout: float | None = 60.0,  # noqa: ASYNC109 - the process is killed, not the task
        limit: int = 65_536,
        env: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run a command in the workspace; see `rxworker.hooks.run_command`.

        Args:
            command: The program and its arguments; a text is split as a shell would.
            shell: Give the text to a shell.
            timeout: Seconds until it is killed; ``None``: never.
            limit: How many bytes of its output are kept.
            env: Variables for it, besides those of this process that hold no secret.

        Raises:
            CommandError: It could not be started, or took too long.
        """
        return await run_command(command, self.workspace, shell=shell, timeout=timeout, limit=limit, env=env)

    async def until(
        self,
        at: datetime | float | None = None,
        *,
        signal: str = "",
        run: str = "",
        event: str = "",
        message: bool = False,
    ) -> Json:
        """Wait for what comes first, at ``before_tool_call`` and ``on_turn_end``; see `ToolContext.until`.

        With a log the run pauses, and the hook is called again from its start when it is woken; those before it are
        not. In a run inside another one, a moment is waited for in the process.

        Raises:
            LocalProtocolError: A hook cannot wait here.
            ConfigurationError: There is nothing to wait for, or something other than a moment without a log.
        """
        if self.point not in (HookPoint.BEFORE_TOOL_CALL, HookPoint.ON_TURN_END):
            raise LocalProtocolError("a hook can wait at before_tool_call and on_turn_end; elsewhere a tool can")
        name = self.hook
        begun = self.held if self.held is not None and self.held.state == name else Begun(name)
        wait = Wait(0.0, signal, run, message, event)
        return await until(begun, self.passed.setdefault(name, []), at, wait, can_pause=self.can_wait)

    def add_messages(self, messages: Iterable[Message]) -> None:
        """Put messages at the end of the conversation. They stay.

        Raises:
            LocalProtocolError: The run has ended.
            TypeError: They are not messages, or they hold tool calls or results.
        """
        added = tuple(messages)
        self.emit(MessageAdd(added, self.hook))
        self._assign("conversation", self.conversation.add(*added))

    def rewrite_conversation(self, change: Change) -> None:
        """Change messages that the conversation keeps, for good, for example to mask a secret.

        At ``on_message_send`` and ``on_turn_end``.

        At ``on_message_send`` it changes the messages of this request as well. The records that were written before
        stay as they are; a `ConversationReplace` follows them.

        Args:
            change: Called with each message. Returns it, another one in its place, or ``None`` to take it out. Calls
                keep their ids, a call and its result are taken out together, and what a provider has sealed, such as
                signed thoughts, is kept as it is or taken out.

        Raises:
            LocalProtocolError: Here the conversation cannot be rewritten, the run has ended, or a provider would refuse
                the result.
            TypeError: The change returned something other than a message or ``None``.
        """
        if self.point not in REWRITTEN:
            points = " and ".join(point.value for point in REWRITTEN)
            raise LocalProtocolError(f"the conversation can be rewritten at {points} only")
        check_plain("rewrite_conversation(change)", change)
        rewritten = rewrite(self.conversation, change)
        if rewritten != self.conversation:
            self.emit(ConversationReplace(rewritten, self.hook))
            self._assign("conversation", rewritten)

    @overload
    def add_message(self, message: Message, /) -> None: ...
    @overload
    def add_message(self, message: str, /, role: Role) -> None: ...
    def add_message(self, message: Message | str, /, role: Role | None = None) -> None:
        """Put a message at the end of the conversation. It stays.

        Args:
            message: A message, or the text of one.
            role: The role of the text's message.

        Raises:
            LocalProtocolError: The run has ended.
        """
        if isinstance(message, str) and role is not None:
            message = Message(role, (Text(message),))
        # A caller that passes a text alone gets a helpful error when the message is emitted.
        self.add_messages((cast("Message", message),))

    def send_message(self, content: str, role: Role = "assistant") -> None:
        """Send the watchers a message; the model does not get it. Also called ``stream_message``.

        Args:
            content: The text.
            role: The role in which it is shown, for user interfaces that distinguish roles.

        After the run has ended it is dropped, with a warning in the log ``rxworker.hooks``; so it is with the two
        below.
        """
        if role not in ROLES:
            raise TypeError(f"{role!r} is not a role: {', '.join(ROLES)}")
        self.emit(HookMessage(self.hook, "message", content, role=role))

    def send_system(self, content: str) -> None:
        """Send the watchers a notice; the model does not receive it. Also called ``stream_system_message``."""
        self.emit(HookMessage(self.hook, "system", content))

    def send_debug(self, title: str, data: JsonObject) -> None:
        """Send the watchers data; the model does not receive it. Also called ``stream_debug``."""
        self.emit(HookMessage(self.hook, "debug", title, data))

    stream_message = send_message
    stream_system_message = send_system
    stream_debug = send_debug

    def enter(self, hook: str) -> None:
        """Note the name of the hook that runs next; made for the code that runs hooks."""
        object.__setattr__(self, "hook", hook)

    def lend(self) -> Callable[[], object]:
        """Let a hook run others with this context, which are none of this point; made for the code that runs hooks.

        No hook is spared there, and nothing is allowed. Calling what is returned ends that.
        """
        values = self.__dict__
        kept = {name: values[name] for name in ("hook", "reached", "spared", "granted") if name in values}
        values.update(reached=[], spared=frozenset())
        if "granted" in kept:
            values["granted"] = None
        return partial(values.update, kept)

    def checkpoint(self) -> Callable[[], None]:
        """Remember what may be changed here. Calling what is returned brings it back."""
        values = self.__dict__
        kept = {name: copy.deepcopy(values[name]) for name in self.changeable if name in values}

        def restore() -> None:
            values.update(kept)

        return restore


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
        messages: object = self.messages
        if not is_list(messages):
            raise self._broken(f"the messages are {messages!r:.60}, which is not a list")
        for message in messages:
            if not isinstance(message, Message):
                raise self._broken(f"the messages hold {message!r:.60}, which is not a Message")
            if (what := odd_message(message)) is not None:
                raise self._broken(f"the messages hold {what}")
        if self.system is not None and (odd := _odd_text(self.system)) is not None:
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
    content: object = message.content
    if not is_list(content):
        return f"a message with the content {content!r:.60}: write Message.user('...')"
    for block in content:
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
    content: object = left.content
    blocks = content if is_list(content) else [content]
    if not isinstance(content, str) and not all(isinstance(block, RESULT_BLOCKS) for block in blocks):
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
