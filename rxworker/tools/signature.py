"""Reading signatures: which parameters the model fills in, and which are ours."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Struct

from rxworker.errors import ConfigurationError
from rxworker.tools.context import ToolContext

# What the providers accept as the name of a property.
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
REQUIRED = inspect.Parameter.empty


class Parameter(Struct, frozen=True):
    """One parameter of a tool's function.

    Attributes:
        name: Its name, in Python and in JSON.
        annotation: Its type.
        default: What it is when it is not given; ``inspect.Parameter.empty`` where it must be given.
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
        names: What the annotations may mention besides the names of the function's module.

    Raises:
        ConfigurationError: A parameter cannot be filled in from a JSON object.
    """
    parameters = list(_signature(function, tool).parameters.values())[1 if method else 0 :]
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


def _signature(function: Callable[..., Any], tool: str) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except (ValueError, TypeError, NameError) as error:
        raise ConfigurationError(f"tool {tool!r}: its signature cannot be read: {error}") from error


def _read(
    parameter: inspect.Parameter,
    function: Callable[..., Any],
    tool: str,
    names: Mapping[str, Any],
) -> Parameter:
    where = f"tool {tool!r}, parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigurationError(
            f"{where}: the model must know what to fill in; name each parameter instead of {parameter}"
        )
    if parameter.annotation is REQUIRED:
        raise ConfigurationError(
            f"{where}: it has no type; annotate it, for example {parameter.name}: str"
        )
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
    if _is_pydantic_field(parameter.default):
        raise ConfigurationError(
            f"{where}: pydantic's Field is no default here; write {parameter.name}: Annotated[<type>, Field(...)] = <default>"
        )
    return Parameter(
        name=parameter.name,
        annotation=annotation,
        default=parameter.default,
        positional=parameter.kind is parameter.POSITIONAL_ONLY,
        injected=_is_context(annotation),
    )


def _is_pydantic_field(default: object) -> bool:
    """Recognised by its shape, so that pydantic need not be installed."""
    return type(default).__name__ == "FieldInfo" and hasattr(default, "is_required")


def _is_context(annotation: Any) -> bool:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _is_context(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return any(_is_context(part) for part in typing.get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, ToolContext)


__all__ = ["Parameter", "read_parameters", "resolve"]
