"""Objects that describe themselves by a name, a description and a schema, as tools."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias, TypeVar, cast

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject, ToolMeta, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.tools.base import Tool, ToolPolicy, reconcile_of
from rxworker.tools.context import ToolContext
from rxworker.tools.results import to_result

T = TypeVar("T")

MEMBERS = ("name", "description", "input_schema", "execute")


class DescribedTool(Protocol):
    """A tool that has the parts of its description in place of a `ToolMeta`.

    It may have a ``policy`` and ``reconcile``, as a `Tool`.

    >>> class Echo:
    ...     name = "echo"
    ...     description = "Repeat a text."
    ...     input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    ...     async def execute(self, input_json: str) -> str:
    ...         return input_json
    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel, call
    >>> worker = Worker(ScriptedModel([call("echo", text="hi"), "Done."]), tools=[Echo()])
    >>> worker.run_sync("?").conversation.messages[2].tool_results[0].text
    '{"text":"hi"}'
    """

    @property
    def name(self) -> str:
        """The name for the model."""
        ...

    @property
    def description(self) -> str:
        """When and how to use it."""
        ...

    @property
    def input_schema(self) -> JsonObject:
        """JSON schema of the arguments."""
        ...

    @property
    def execute(self) -> Callable[..., Awaitable[object]]:
        """Runs it with the JSON text of its arguments and, if it has a second parameter, the `ToolContext`.

        It returns what any tool may return.
        """
        ...


ToolLike: TypeAlias = Tool | DescribedTool
"""What a worker accepts as a tool."""


class AdaptedTool:
    """A `DescribedTool` as a `Tool`. Its other attributes are those of the object, so that a hook reaches its state.

    Attributes:
        wrapped: The object.
        meta: The description for the model, as it was when the tool was added.
        policy: The execution policy.
        reconcile: Finds out whether a call had its effect.

    Raises:
        ConfigurationError: A member has the wrong type.
    """

    def __init__(self, tool: DescribedTool) -> None:
        self.wrapped = tool
        self.meta = ToolMeta(
            _member(tool, "name", str),
            _member(tool, "description", str),
            _member(tool, "input_schema", dict[str, Json]),
        )
        self.policy: ToolPolicy | None = getattr(tool, "policy", None)
        self.reconcile = reconcile_of(cast("Tool", tool))
        self._takes_context = _takes_context(tool)

    def __getattr__(self, name: str) -> object:
        return getattr(self.wrapped, name)

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ResultContent | ToolResult:
        """Run it."""
        text = input_json if isinstance(input_json, str) else input_json.decode()
        execute = self.wrapped.execute
        value = await (execute(text, context) if self._takes_context else execute(text))
        return to_result(value, self.meta.name)


def adapted(tool: ToolLike) -> Tool:
    """The object as a tool: itself, unless it has the members of a `DescribedTool` only.

    Raises:
        ConfigurationError: A member has the wrong type.
    """
    has_members = all(hasattr(tool, member) for member in MEMBERS)
    if hasattr(tool, "meta") or isinstance(tool, type) or not has_members:
        return cast("Tool", tool)
    return AdaptedTool(cast("DescribedTool", tool))


def _member(tool: DescribedTool, name: str, kind: type[T]) -> T:
    """The value of a member, which may be a method."""
    value: object = getattr(tool, name)
    if callable(value):
        value = value()
    if not isinstance(value, typing.get_origin(kind) or kind):
        what = type(tool).__qualname__
        raise ConfigurationError(
            f"{name} of the tool {what} is {value!r:.60}; give a {(typing.get_origin(kind) or kind).__name__}"
        )
    return cast("T", value)


def _takes_context(tool: DescribedTool) -> bool:
    signature = inspect.signature(tool.execute)
    for arguments in (("", None), ("",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) > 1
    what = type(tool).__qualname__
    raise ConfigurationError(
        f"execute of the tool {what} is execute{signature}; it takes the JSON text of the arguments, and the context "
        "if it needs it: async def execute(self, input_json, context)"
    )
