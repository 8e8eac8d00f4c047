"""Workers from the options of a command, and the tools and functions that options name as ``module:function``."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from rxworker.cli.process import MISUSED, CommandError, explain, misuse
from rxworker.cli.providers import find_provider
from rxworker.errors import ConfigurationError
from rxworker.hooks.decorate import HookLike
from rxworker.messages import ToolMeta
from rxworker.operators.gate import InputGate, check_gate
from rxworker.providers import Options
from rxworker.tools import Tool, Toolbox
from rxworker.tools.function import tool
from rxworker.transport import Client, Model
from rxworker.ui.clean import one_line
from rxworker.worker.session import Worker

if TYPE_CHECKING:
    from rxworker.boards import Dashboard
    from rxworker.ui.web import Settings

A = TypeVar("A")


class WorkerOptions(Struct, frozen=True):
    """The options of a command that describe a worker.

    Attributes:
        provider: The name of the provider.
        model: The model's name.
        base_url: The address of the service.
        api_key_env: The environment variable that holds the key.
        system: The system prompt.
        max_tokens: The maximum number of tokens of an answer.
        tools: The tools that the model may call, as ``module:function``.
        gate: What clients send must pass it, as ``module:name``.
    """

    provider: str | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    system: str | None = None
    max_tokens: int | None = None
    tools: Sequence[str] = ()
    gate: str | None = None

    def maker(self, hooks: Callable[[], Iterable[HookLike]] = tuple) -> Callable[[], Worker] | None:
        """The function that makes such workers; ``None`` without a provider or a model.

        Args:
            hooks: Returns the hooks of a worker.

        Raises:
            CommandError: An option is wrong.
        """
        if self.provider is None or self.model is None:
            return None
        toolbox = import_tools(self.tools)
        key = read_variable("--api-key-env", self.api_key_env)
        with misuse():
            provider = find_provider(self.provider)(self.model, base_url=self.base_url, api_key=key)
        options = Options(max_tokens=self.max_tokens)

        def make() -> Worker:
            return Worker(provider, tools=toolbox, system=self.system, options=options, hooks=hooks())

        return make

    def input_gate(self) -> InputGate | None:
        """The gate of what clients send; ``None`` without one.

        Raises:
            CommandError: It does not exist, or is something else.
        """
        if self.gate is None:
            return None
        found: Any = import_object(f"--gate {self.gate}", self.gate, "my_checks:gate")
        with misuse(f"--gate {self.gate}: "):
            check_gate(found)
        return found

    def model_finder(self) -> Callable[[str, str], Model]:
        """The function that finds other models by the names of their providers.

        The address and the key belong to the provider of these options; another one is reached at its own address, with
        the key of its own variable.

        Raises:
            CommandError: The variable is not set.
        """
        key = read_variable("--api-key-env", self.api_key_env)

        def find(name: str, model: str) -> Model:
            try:
                kind = find_provider(name)
                if self.provider is not None and kind is find_provider(self.provider):
                    return Client(kind(model, base_url=self.base_url, api_key=key))
                return Client(kind(model))
            except CommandError as error:
                raise ConfigurationError(str(error)) from error

        return find


def settings_of(
    listens: str,
    host: str,
    token_env: str | None,
    allowed_hosts: Sequence[str],
    close_delay: float = 0.0,
    *,
    gate: InputGate | None = None,
) -> Settings:
    """The settings of a server, which has a token if other machines can reach it.

    Args:
        listens: The option of the address to listen on, and its value.
        host: Where it listens.
        token_env: The environment variable that holds the token.
        allowed_hosts: Names by which the server may be called.
        close_delay: How long it serves at the end.
        gate: What clients send must pass it.

    Raises:
        CommandError: An option is wrong, or there is no token.
    """
    from rxworker.transport.listening import is_loopback
    from rxworker.ui.web import Settings  # a chat needs no server

    token = read_variable("--token-env", token_env)
    if token is None and not is_loopback(host):
        message = (
            f"{listens}: other machines can reach that, and every client of the server can run its tools. Put a long "
            "secret into an environment variable and name it with --token-env, or leave the host out"
        )
        raise CommandError(message, MISUSED)
    with misuse():
        return Settings(token=token, allowed_hosts=tuple(allowed_hosts), close_delay=close_delay, gate=gate)


def by_name(served: Sequence[tuple[str, A]], missing: str) -> dict[str, A]:
    """The workers of a server by their names.

    Args:
        served: Names and workers.
        missing: Why there has to be one.

    Raises:
        CommandError: There is none, or two have one name.
    """
    workers = dict(served)
    if len(workers) < len(served):
        names = ", ".join(name for name, _ in served)
        raise CommandError(f"two workers have one name ({names}): write NAME=MODULE:FUNCTION for one", MISUSED)
    if not workers:
        raise CommandError(missing, MISUSED)
    return workers


def read_variable(option: str, name: str | None) -> str | None:
    """The value of the environment variable that an option names; ``None`` without the option.

    Raises:
        CommandError: The variable is not set.
    """
    if name is None:
        return None
    value = os.environ.get(name)
    if not value:
        raise CommandError(f"{option}: the variable {name!r} is not set", MISUSED)
    return value


SHAPE = "write it as module:function, for example"


def import_maker(name: str, *made: type) -> Any:
    """Import the function of that name, which makes workers. Modules in the current directory are found.

    Args:
        name: A module and a function of it, as in ``package.module:function``.
        made: Classes, an object of which may be named in place of a function.

    Raises:
        CommandError: It does not exist, or it is not a function.
    """
    found = import_object(one_line(name, 80), name, "my_workers:make_worker")
    if isinstance(found, made):
        return found
    if isinstance(found, Worker):
        raise CommandError(f"{name}: that is a Worker: give a function that returns one", MISUSED)
    if not callable(found):
        raise CommandError(f"{name}: that is {found!r:.60}, not a function", MISUSED)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each.name for each in parameters_of(found) if each.default is each.empty and each.kind not in variadic]
    if len(needed) > 1:
        raise CommandError(f"{name}: it needs {', '.join(needed)}: give a function of at most one argument", MISUSED)
    return found


def parameters_of(function: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a function; none of a builtin, which has no signature."""
    try:
        return [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return []


def import_named(given: str, *made: type) -> tuple[str, Any]:
    """The name and the function of ``name=module:function``; without a name, that of the function without ``make_``.

    Args:
        given: The argument.
        made: As for `import_maker`.

    Raises:
        CommandError: As for `import_maker`.

    >>> import_named("fleet=os.path:join")[0], import_named("os:path.isdir")[0]
    ('fleet', 'isdir')
    """
    name, _, path = given.rpartition("=")
    own = path.rpartition(":")[2].rpartition(".")[2].removeprefix("make_")
    return name or own, import_maker(path, *made)


def import_tools(names: Iterable[str]) -> Toolbox:
    """Import the tools of these names, in order.

    Raises:
        CommandError: A tool cannot be imported, or two tools have the same name.
    """
    toolbox = Toolbox()
    for name in names:
        found = import_tool(name)
        with misuse(f"--tool {name}: "):
            toolbox.add(found)
    return toolbox


def import_tool(name: str) -> Tool:
    """Import the tool of that name. A plain function becomes a tool. Modules in the current directory are found.

    Args:
        name: A module and an attribute of it, as in ``package.module:function`` or ``module:object.method``.

    Raises:
        CommandError: It does not exist, or it is not a tool.
    """
    where = f"--tool {name}"
    found = import_object(where, name, "my_tools:look_up")
    if isinstance(getattr(found, "meta", None), ToolMeta) and hasattr(found, "execute"):
        return found  # pyright: ignore[reportReturnType] - a Tool, by its members
    if isinstance(found, type) or not callable(found):
        raise CommandError(f"{where}: that is {found!r:.60}, not a function", MISUSED)
    with misuse(f"{where}: "):
        return tool(found)


def import_object(where: str, name: str, example: str) -> object:
    """Import the object of a name such as ``package.module:function`` or ``module:object.method``.

    Modules in the current directory are found.

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


def dashboard_of(name: str) -> Dashboard:
    """The dashboard of a name such as ``my_boards:board``.

    Raises:
        CommandError: It does not exist, or is something else.
    """
    from rxworker.boards import Dashboard

    found = import_object(name, name, "my_boards:board")
    if not isinstance(found, Dashboard):
        raise CommandError(f"{name}: that is {found!r:.60}, not a Dashboard", MISUSED)
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
