"""Reading a function: which parameters the model fills in, and the descriptions in its docstring.

Three styles of docstrings are read: Google's (``Args:``), reStructuredText's (``:param x:``) and NumPy's (headings with
a line below). Sections for callers in Python, such as what it returns or raises, are left out.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Annotated, Any

from msgspec import Struct

from rxworker.errors import ConfigurationError
from rxworker.tools.base import ToolContext

# What the providers accept as the name of a property.
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
REQUIRED = inspect.Parameter.empty


class Parameter(Struct, frozen=True):
    """One parameter of a tool's function.

    Attributes:
        name: Its name, in Python and in JSON.
        annotation: Its type.
        default: The default value; ``inspect.Parameter.empty`` if it is required.
        positional: Whether Python takes it by position only.
        injected: Whether it receives the `ToolContext`, and the model does not see it.
    """

    name: str
    annotation: Any
    default: Any
    positional: bool
    injected: bool

    @property
    def required(self) -> bool:
        """Whether the model must give it."""
        return self.default is REQUIRED


def read_parameters(
    function: Callable[..., Any], tool: str, *, method: bool, names: Mapping[str, Any]
) -> tuple[Parameter, ...]:
    """The parameters of a tool's function, without the ``self`` of a method.

    Args:
        function: The function.
        tool: The tool's name, for the errors.
        method: Whether the first parameter is the object.
        names: Names that the annotations may use in addition to those of the function's module.

    Raises:
        ConfigurationError: A parameter cannot be filled in from a JSON object.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError, NameError) as error:
        raise ConfigurationError(f"tool {tool!r}: its signature cannot be read: {error}") from error
    parameters = list(signature.parameters.values())[1 if method else 0 :]
    return tuple(_read(parameter, function, tool, names) for parameter in parameters)


def resolve(annotation: Any, function: Callable[..., Any], names: Mapping[str, Any]) -> Any:
    """The type that an annotation means, also where it is written as text.

    Raises:
        NameError: It mentions a name that is not known where the function is defined.
    """
    # One annotation at a time: the others, and above all what the function returns, may mention what is not there yet.
    holder = type("Holder", (), {"__annotations__": {"it": annotation}})
    module = getattr(inspect.unwrap(function), "__globals__", {})
    return typing.get_type_hints(holder, dict(module), dict(names), include_extras=True)["it"]


def _read(parameter: inspect.Parameter, function: Callable[..., Any], tool: str, names: Mapping[str, Any]) -> Parameter:
    where = f"tool {tool!r}, parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigurationError(
            f"{where}: the model must know what to fill in; name each parameter instead of {parameter}"
        )
    if parameter.annotation is REQUIRED:
        raise ConfigurationError(f"{where}: it has no type; annotate it, for example {parameter.name}: str")
    if NAME.fullmatch(parameter.name) is None:
        raise ConfigurationError(
            f"{where}: providers take up to 64 letters without accents, digits and underscores as a name; rename it"
        )
    try:
        annotation = resolve(parameter.annotation, function, names)
    except Exception as error:
        raise ConfigurationError(
            f"{where}: its type {parameter.annotation!r} cannot be resolved: {error}; import or define it, before the "
            "function and not under TYPE_CHECKING"
        ) from error
    # Recognised by its shape, so that pydantic need not be installed.
    if type(parameter.default).__name__ == "FieldInfo" and hasattr(parameter.default, "is_required"):
        raise ConfigurationError(
            f"{where}: pydantic's Field is not a default here; write {parameter.name}: Annotated[<type>, Field(...)] = "
            "<default>"
        )
    return Parameter(
        name=parameter.name,
        annotation=annotation,
        default=parameter.default,
        positional=parameter.kind is parameter.POSITIONAL_ONLY,
        injected=_is_context(annotation),
    )


def _is_context(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _is_context(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, ToolContext)


PARAMETERS = re.compile(
    r"(Args|Arguments|Params|Parameters|Keyword Args|Keyword Arguments|Other Parameters):\s*", re.IGNORECASE
)
OTHERS = re.compile(
    r"(Returns?|Yields?|Receives|Raises|Examples?|Attributes|Methods|See Also|References|Todo|Warns):\s*", re.IGNORECASE
)
GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)(?:\s*\(.*?\))?\s*:(?:\s+(.*))?")
REST_FIELD = re.compile(r":(\w+)(?:\s+([^:]*))?:(?:\s+(.*))?")
RULE = re.compile(r"-{3,}|={3,}")
REST_PARAMETER = frozenset({"param", "parameter", "arg", "argument", "key", "keyword"})


class Docstring(Struct, frozen=True):
    """The content of a docstring.

    Attributes:
        description: The summary and the paragraphs under it.
        parameters: The documented descriptions of the parameters.
    """

    description: str
    parameters: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    r"""Read a docstring of any of the three styles.

    Args:
        text: The docstring, indented as it stands in the source.

    >>> parse_docstring("Look it up.\n\nArgs:\n    city: Where to look.")
    Docstring(description='Look it up.', parameters={'city': 'Where to look.'})
    >>> parse_docstring("Look it up.\n\n:param str city: Where to look.").parameters
    {'city': 'Where to look.'}
    >>> parse_docstring("Look it up.\n\nParameters\n----------\ncity : str\n    Where to look.").parameters
    {'city': 'Where to look.'}
    """
    reader = _Reader()
    lines = inspect.cleandoc(text or "").splitlines()
    for line, below in zip_longest(lines, lines[1:], fillvalue=""):
        reader.read(line, below)
    return Docstring(
        "\n".join(reader.description).strip(),
        {name: " ".join(filter(None, lines)).strip() for name, lines in reader.parameters.items()},
    )


class _Reader:
    """Goes through the lines once.

    ``entry`` is where a continuation line goes: the lines of a parameter, or ``None`` where they are left out.
    ``section`` is ``text`` (the description), ``parameters``, ``other``, or one of NumPy's, whose entries stand at the
    left edge: ``numpy parameters`` or ``numpy other``.
    """

    def __init__(self) -> None:
        self.description: list[str] = []
        self.parameters: dict[str, list[str]] = {}
        self.section = "text"
        self.depth: int | None = None
        self.entry: list[str] | None = None
        self.is_rule = False

    def read(self, line: str, below: str) -> None:
        indent = len(line) - len(line.lstrip())
        if self.is_rule:
            self.is_rule = False
            return
        if line[:1].strip() and RULE.fullmatch(below) and self.numpy_heading(line.strip()):
            return
        if self.section.startswith("numpy"):
            self.numpy_line(line.strip(), indent)
            return
        if line.strip() and indent == 0 and self.heading(line.strip()):
            return
        if self.section == "text":
            self.description.append(line)
        elif self.section == "parameters":
            self.parameter(line.strip(), indent)
        elif self.entry is not None:
            self.entry.append(line.strip())

    def heading(self, line: str) -> bool:
        """Whether a line at the left edge begins something new; if it does, begin it."""
        self.entry = None if self.section != "text" else self.entry
        field = REST_FIELD.fullmatch(line)
        if PARAMETERS.fullmatch(line):
            self.section, self.depth = "parameters", None
        elif OTHERS.fullmatch(line):
            self.section = "other"
        elif field is not None:
            self.section = "other"
            if field[1].lower() in REST_PARAMETER and (field[2] or "").strip():
                # ``:param str city:`` names its type first.
                self.entry = self.begin(field[2].split()[-1], field[3])
        else:
            # A line at the left edge ends a section; what follows belongs to the description.
            self.section = "text"
            return False
        return True

    def numpy_heading(self, line: str) -> bool:
        """Whether a line with a rule below begins a section of parameters, or one that is left out.

        If it does, begin it.
        """
        is_parameters = PARAMETERS.fullmatch(f"{line}:") is not None
        self.is_rule = is_parameters or OTHERS.fullmatch(f"{line}:") is not None
        self.entry = None
        if self.is_rule:
            self.section = "numpy parameters" if is_parameters else "numpy other"
        else:
            self.section = "text"
        return self.is_rule

    def numpy_line(self, line: str, indent: int) -> None:
        """A line of a NumPy section: ``a, b : int`` at the left edge, and below it, indented, what they mean."""
        if indent and self.entry is not None:
            self.entry.append(line)
        elif line and not indent and self.section == "numpy parameters":
            self.entry = []
            for name in line.partition(":")[0].split(","):
                self.parameters[name.strip().lstrip("*")] = self.entry

    def parameter(self, line: str, indent: int) -> None:
        if not line:
            return
        self.depth = indent if self.depth is None else self.depth
        match = GOOGLE_ENTRY.fullmatch(line) if indent <= self.depth else None
        if match is not None:
            self.entry = self.begin(match[1], match[2])
        elif self.entry is not None:
            self.entry.append(line)

    def begin(self, name: str, text: str | None) -> list[str]:
        lines = self.parameters[name.lstrip("*")] = [text or ""]
        return lines
