"""The context that every hook receives.

The conversation, the tools, the workspace, and methods to send messages and run commands.
"""

from __future__ import annotations

import copy
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, cast, overload

from rxworker.errors import HookError, LocalProtocolError, nearest
from rxworker.events import ConversationReplace, CustomEvent, HookMessage, LoopHold, MessageAdd
from rxworker.hooks.command import CommandResult, run_command
from rxworker.hooks.points import HookPoint
from rxworker.messages import (
    Conversation,
    Json,
    JsonObject,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolMeta,
    ToolResult,
    validate,
)
from rxworker.messages.message import Role
from rxworker.messages.settings import awaited, check_plain

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
    messages = changed(conversation.messages, change)
    rewritten = conversation.with_messages(messages)
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
        toolbox: The worker's tools.
        call_tool: Runs one of them; ``run_tool`` does it for you.
        shared: The state that tools and hooks share with user interfaces; the methods below read and set it for you.
        reached: The names of the hooks of this point that come before this one, and its own; those in chains as
            ``chain/hook``.
        spared: Hooks that do not run again after a pause: the name of each, and how many of the same name come before
            it.
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
    toolbox: Toolbox | None = None
    call_tool: CallTool | None = None
    shared: SharedState | None = None
    reached: list[str] = field(default_factory=list[str])
    spared: frozenset[tuple[str, int]] = frozenset()

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
        text = f"the content cannot be changed {where}; {len(content)} characters were given"
        raise LocalProtocolError(text)

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
