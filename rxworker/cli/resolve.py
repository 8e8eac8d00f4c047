"""Names on the command line: a provider by its name, and a tool as ``module:function``."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from types import ModuleType

from rxworker.cli.process import MISUSED, CommandError, explain
from rxworker.errors import ConfigurationError
from rxworker.messages import ToolMeta
from rxworker.providers import (
    PROVIDERS,
    Anthropic,
    Gemini,
    Ollama,
    OpenAIChat,
    OpenAIResponses,
)
from rxworker.tools import Tool, Toolbox, tool
from rxworker.ui.clean import one_line


def provider_names() -> str:
    """The names that `find_provider` knows, in one line.

    >>> "anthropic" in provider_names()
    True
    """
    return ", ".join(_known())


def find_provider(
    name: str,
) -> type[Anthropic] | type[Gemini] | type[Ollama] | type[OpenAIChat] | type[OpenAIResponses]:
    """The provider of that name; hyphens are read as underscores.

    Raises:
        CommandError: The name is unknown.

    >>> find_provider("openai-chat").__name__
    'OpenAIChat'
    """
    found = PROVIDERS.get(name.lower().replace("-", "_"))
    if found is None:
        close = difflib.get_close_matches(name.lower().replace("_", "-"), _known(), 1, 0.5)
        hint = f"did you mean {close[0]}? " if close else ""
        raise CommandError(
            f"unknown provider {one_line(name, 60)!r}: {hint}there are {provider_names()}", MISUSED
        )
    return found


def _known() -> list[str]:
    return [name.replace("_", "-") for name in PROVIDERS]


SHAPE = "write it as module:function, for example"


def import_tools(names: Iterable[str]) -> Toolbox:
    """Import the tools of these names, in order.

    Raises:
        CommandError: A tool cannot be imported, or two tools have the same name.
    """
    toolbox = Toolbox()
    for name in names:
        found = import_tool(name)
        try:
            toolbox.add(found)
        except ConfigurationError as error:
            raise CommandError(f"--tool {name}: {explain(error)}", MISUSED) from error
    return toolbox


def import_tool(name: str) -> Tool:
    """Import the tool of that name. A plain function becomes a tool. Modules in the current directory are found.

    Args:
        name: A module and an attribute of it, as in ``package.module:function`` or ``module:object.method``.

    Raises:
        CommandError: It does not exist, or it is not a tool.
    """
    where = f"--tool {name}"
    return _as_tool(where, import_object(where, name, "my_tools:look_up"))


def import_object(where: str, name: str, example: str) -> object:
    """Import the object of a name such as ``package.module:function`` or ``module:object.method``. Modules in the current directory are found.

    Args:
        where: Names the option or argument in errors.
        name: A module and an attribute of it.
        example: A name of this kind, for errors.

    Raises:
        CommandError: It does not exist.
    """
    module_name, colon, path = name.partition(":")
    parts = path.split(".")
    if module_name.endswith(".py") or os.sep in module_name:
        raise CommandError(f"{where}: that is a file; {SHAPE} {example}", MISUSED)
    if not (colon and module_name and all(parts)):
        raise CommandError(f"{where}: {SHAPE} {example}", MISUSED)
    found: object = _import(where, module_name)
    for part in parts:
        found = _attribute(where, found, part)
    return found


def _import(where: str, module_name: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # The module itself or one of its packages is missing; otherwise a module that it imports.
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            message = f"there is no module {error.name!r}, neither installed nor in {here}"
            raise CommandError(f"{where}: {message}", MISUSED) from error
        raise CommandError(f"{where}: {_broken(error)}", MISUSED) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a module may raise anything, also SystemExit
        raise CommandError(f"{where}: {_broken(error)}", MISUSED) from error


def _broken(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        file, line = error.filename or "?", error.lineno or 0
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        file, line = last.filename, last.lineno or 0
    return f"its import failed with {explain(error)} ({os.path.basename(file)}, line {line})"


def _attribute(where: str, owner: object, part: str) -> object:
    try:
        return getattr(owner, part)
    except AttributeError as error:
        there = [n for n in dir(owner) if not n.startswith("_")]
        close = difflib.get_close_matches(part, there, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        kind = "module" if isinstance(owner, ModuleType) else type(owner).__name__
        message = f"there is no {part!r} in the {kind}{hint}"
        raise CommandError(f"{where}: {message}", MISUSED) from error


def _as_tool(where: str, found: object) -> Tool:
    if isinstance(getattr(found, "meta", None), ToolMeta) and hasattr(found, "execute"):
        return found  # pyright: ignore[reportReturnType] - a Tool, by its members
    if isinstance(found, type) or not callable(found):
        raise CommandError(f"{where}: that is {found!r:.60}, no function", MISUSED)
    try:
        return tool(found)
    except ConfigurationError as error:
        raise CommandError(f"{where}: {explain(error)}", MISUSED) from error
