"""The tools a model may call, by name; and objects that describe themselves as tools."""

from __future__ import annotations

import inspect
import logging
import typing
from collections.abc import Awaitable, Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, TypeVar, cast

from rxworker.errors import ConfigurationError, ToolError
from rxworker.messages import Json, JsonObject, ToolMeta, ToolResult
from rxworker.messages.content import ResultContent
from rxworker.tools.base import (
    USUAL,
    ClientTool,
    Tool,
    ToolContext,
    ToolPolicy,
    check_members,
    check_meta,
    check_name,
    policy_of,
    reconcile_of,
)
from rxworker.tools.function import FunctionTool
from rxworker.tools.results import ErrorFormatter, format_error, to_result
from rxworker.tools.schema import check_schema
from rxworker.watchdog import call_watched

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
    known: Any = tool
    if hasattr(tool, "meta") or isinstance(tool, type) or not all(hasattr(tool, member) for member in MEMBERS):
        return known
    return AdaptedTool(known)


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


META = attrgetter("meta")
logger = logging.getLogger("rxworker.tools")


class Toolbox:
    """Tools by name. They are looked up when they are called, so that tools may come and go during a run.

    Args:
        tools: The tools to begin with, in the order the model sees them.
        error_formatter: Makes the text that the model reads of a call that went wrong. Where it raises, or is not
            given, the text is the usual one. Another toolbox that is given as ``tools`` hands its own on.

    Attributes:
        error_formatter: The function, if there is one.
        get: Returns the tool of a name, if there is one.

    Raises:
        ConfigurationError: One is not a tool, or two have the same name.

    >>> from rxworker import tool
    >>> @tool
    ... def look(where: str) -> str:
    ...     return f"nothing {where}"
    >>> toolbox = Toolbox([look])
    >>> toolbox.names, "look" in toolbox
    (('look',), True)
    """

    def __init__(self, tools: Iterable[ToolLike] = (), *, error_formatter: ErrorFormatter | None = None) -> None:
        inherited = tools.error_formatter if isinstance(tools, Toolbox) else None
        self.error_formatter = error_formatter or inherited
        self._tools: dict[str, Tool] = {}
        self.get: Callable[[str], Tool | None] = self._tools.get
        self.add(*tools)

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._tools)

    @property
    def metas(self) -> tuple[ToolMeta, ...]:
        """The descriptions of the tools for the model, in order."""
        return tuple(map(META, self._tools.values()))

    @property
    def starts_early(self) -> bool:
        """Whether calls of any tool may start while the model still streams."""
        # `any` would make a generator for each request, and most policies are the usual one.
        for tool in self._tools.values():
            if getattr(tool, "policy", USUAL) is not USUAL and policy_of(tool).starts_early:
                return True
        return False

    @property
    def own_names(self) -> tuple[str, ...]:
        """The names of the tools that run here, in order: all but those that a client runs.

        >>> from rxworker.tools import ClientTool
        >>> Toolbox([ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"}))]).own_names
        ()
        """
        return tuple([n for n, tool in self._tools.items() if not isinstance(tool, ClientTool)])

    def add(self, *tools: ToolLike) -> None:
        """Put tools in: all of them, or with an error none.

        Raises:
            ConfigurationError: One is not a tool, or its name is taken.
        """
        added: dict[str, Tool] = {}
        for tool in map(adapted, tools):
            given: object = tool
            # The name of a function's tool was checked, as its schema was, when the tool was made.
            is_checked = isinstance(given, FunctionTool) and not given.unbound
            name = tool.meta.name if is_checked else _checked_name(tool)
            other = self._tools.get(name) or added.get(name)
            if other is not None:
                raise ConfigurationError(
                    f"two tools are called {name!r}: {_origin(other)} and {_origin(tool)}; give one of them another "
                    "name with @tool(name=...)"
                )
            added[name] = tool
        self._tools.update(added)

    def missing(self, name: str) -> str:
        """The error for the model if it calls an unknown tool.

        >>> Toolbox().missing("fly")
        "There is no tool called 'fly'. These are the tools: none."
        """
        return f"There is no tool called {name!r}. These are the tools: {self}."

    def format_error(self, error: ToolError) -> str | Awaitable[str]:
        """The text of a failed call for the model; with an ``error_formatter``, an awaitable of it."""
        formatter = self.error_formatter
        return format_error(error) if formatter is None else self._formatted(formatter, error)

    async def _formatted(self, formatter: ErrorFormatter, error: ToolError) -> str:
        try:
            text = cast("object", await call_watched("error_formatter", formatter, error))
            if isinstance(text, str):
                return text
            raise TypeError(f"it returned {text!r:.60}, which is not a text")
        except (Exception, SystemExit) as failure:
            logger.warning("the error formatter failed at %r", error, exc_info=failure, extra={"tool": error.tool})
            return format_error(error)

    def remove(self, name: str) -> Tool:
        """Take a tool out. Calls of it that run go on.

        Raises:
            ConfigurationError: There is none of that name.
        """
        if name not in self._tools:
            raise ConfigurationError(f"there is no tool {name!r} to remove; there are: {self}")
        return self._tools.pop(name)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(tuple(self._tools.values()))

    def __len__(self) -> int:
        return len(self._tools)

    def __str__(self) -> str:
        return ", ".join(self._tools) or "none"


def _checked_name(tool: Tool) -> str:
    """The name of what can be a tool, of whatever make."""
    if isinstance(tool, FunctionTool):
        raise ConfigurationError(
            f"{_origin(cast('object', tool))} is a method without its object: take it from one, such as "
            f"app.{tool.__name__}; for a static method put @tool above @staticmethod"
        )
    # A caller that passes a plain function has ignored the types, so they prove nothing here.
    if not isinstance(getattr(tool, "meta", None), ToolMeta) or not hasattr(tool, "execute"):
        hint = (
            "decorate it with @tool"
            if callable(tool)
            else "it needs an execute method, and a meta or a name, a description and an input_schema"
        )
        raise ConfigurationError(f"{_origin(tool)} is not a tool: {hint}")
    name = check_name(check_meta(tool.meta).name)
    check_members(tool)
    check_schema(tool.meta.input_schema, f"tool {name!r} ({_origin(tool)})")
    return name


def _origin(tool: object) -> str:
    """Where a tool comes from, for messages of errors."""
    it = tool if hasattr(tool, "__qualname__") else type(tool)
    return f"{getattr(it, '__module__', '?')}.{getattr(it, '__qualname__', '?')}"
