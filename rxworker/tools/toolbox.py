"""The tools a model may call, by name."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Iterable, Iterator
from operator import attrgetter
from typing import cast

from rxworker.errors import ConfigurationError, ToolError
from rxworker.messages import ToolCall, ToolMeta
from rxworker.tools.base import (
    USUAL,
    ClientTool,
    Tool,
    ToolPolicy,
    check_members,
    check_meta,
    check_name,
    policy_of,
)
from rxworker.tools.described import ToolLike, adapted
from rxworker.tools.function import FunctionTool
from rxworker.tools.inline import check_schema
from rxworker.tools.results import ErrorFormatter, format_error
from rxworker.watchdog import call_watched

META = attrgetter("meta")
logger = logging.getLogger("rxworker.tools")


class Toolbox:
    """Tools by name. They are looked up when they are called, so that tools may come and go during a run.

    Args:
        tools: The tools to begin with, in the order the model sees them.
        error_formatter: Makes the text that the model reads of a call that went wrong. Where it raises, or is not
            given, the text is the usual one. Another toolbox that is given as ``tools`` hands its own on.

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
        for (
            tool
        ) in self._tools.values():  # `any` would make a generator for each request, and most policies are the usual one
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

    def wants_approval(self, calls: Iterable[ToolCall]) -> bool:
        """Whether a person must approve any of these calls."""
        for call in calls:
            policy = getattr(self._tools.get(call.name), "policy", USUAL)
            if isinstance(policy, ToolPolicy) and policy.requires_approval:
                return True
        return False

    def get(self, name: str) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name)

    def find(self, name: str) -> tuple[Tool | None, ToolPolicy]:
        """The tool of that name, and how it may be run."""
        tool = self._tools.get(name)
        return tool, policy_of(tool)

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
            logger.warning(
                "the error formatter failed at %r",
                error,
                exc_info=failure,
                extra={"tool": error.tool},
            )
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
