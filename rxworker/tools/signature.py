"""Reading a function: which parameters the model fills in, and the descriptions in its docstring.

Three styles of docstrings are read: Google's (``Args:``), reStructuredText's (``:param x:``) and NumPy's (headings with
a line below). Sections for callers in Python, such as what it returns or raises, are left out.

JSON schemas from types.

msgspec makes the schema of each type, and a pydantic model its own. The result is changed where providers would refuse
it: references are replaced by their definitions, enums and literals get their ``type``, ``const`` becomes ``enum``, and
defaults are kept, also those of nested fields whose factory msgspec leaves out.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Struct
from msgspec.inspect import DataclassType, Field, NamedTupleType, StructType, Type, type_info

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject
from rxworker.tools.base import ToolContext
from rxworker.tools.custom_types import JsonDecoder, OneOf, adapt, is_model, is_path, name_of, to_json_value

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
    if _is_pydantic_field(parameter.default):
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


PREFIX = "#/$defs/"
# A discriminator points into the definitions, which are gone; the tags stand in each alternative.
LEFT_OUT = frozenset({"$ref", "$comment", "discriminator", "const"})
# Where a schema holds other schemas. Everything else in it, such as a default, is data.
ONE = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
SOME = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
NAMED = frozenset({"properties", "patternProperties"})
TYPES: Mapping[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
HINT = (
    "use a type that JSON can carry: str, int, float, bool, bytes, list, tuple, set, dict, Literal, an Enum of texts or"
    " of integers, datetime, UUID, Decimal, pathlib.Path, a dataclass, a TypedDict, a NamedTuple, a msgspec.Struct, a "
    "pydantic model, or object for any JSON"
)


def input_schema(parameters: Sequence[Parameter], texts: Mapping[str, str], tool: str) -> JsonObject:
    """The schema of a tool's arguments: an object without ``$ref``.

    Args:
        parameters: The function's parameters; those that are injected are left out.
        texts: The descriptions of those whose type does not define one.
        tool: The tool's name, for the errors.

    Raises:
        ConfigurationError: A type has no schema, or one that refers to itself.
    """
    seen = [parameter for parameter in parameters if not parameter.injected]
    properties: JsonObject = {p.name: _property(p, texts.get(p.name), tool) for p in seen}
    schema: JsonObject = {"type": "object", "properties": properties}
    if required := [p.name for p in seen if p.required]:
        schema["required"] = list[Json](required)
    schema["additionalProperties"] = False
    return schema


def schema_of(annotation: Any) -> JsonObject:
    """The schema of a type, without ``$ref``.

    Raises:
        TypeError: The type has no schema.
        ValueError: The type refers to itself, or is nested too deeply.

    >>> schema_of(typing.Literal["celsius", "kelvin"])
    {'type': 'string', 'enum': ['celsius', 'kelvin']}
    """
    try:
        adapted = adapt(annotation)
        _check_classes(adapted)
        (schema,), components = msgspec.json.schema_components(
            [adapted], ref_template=PREFIX + "{name}", schema_hook=_custom
        )
        _keep_defaults(adapted, components)
        return _inline(schema, components, ())
    except RecursionError as error:
        raise ValueError(f"the type {name_of(annotation)} is nested too deeply") from error
    except NameError as error:
        raise TypeError(
            f"the type {name_of(annotation)} mentions {error.name!r}, which is not a name of its module; a class within"
            " a function can be found only if annotations are not postponed, so define both at the top of the module"
        ) from error


def _custom(type_: Any) -> JsonObject:
    """The schema of a type that msgspec does not know.

    Raises:
        TypeError: We do not know it either.
    """
    if type_ is object:
        # Any JSON. msgspec refuses an empty schema, and comments are left out below.
        return {"$comment": "any"}
    if is_path(type_):
        return {"type": "string"}
    if is_model(type_):
        try:
            schema: dict[str, Any] = type_.model_json_schema()
        except Exception as error:
            reason = str(error).partition("\n")[0]  # the lines below are an address
            raise TypeError(f"the model {name_of(type_)} has no JSON schema: {reason}") from error
        components = schema.pop("$defs", {})
        return _inline(schema, components, ())
    if isinstance(type_, type) and issubclass(type_, OneOf):
        return {"anyOf": list[Json](map(schema_of, type_.options))}
    # Without a text of its own msgspec speaks of hooks that a tool does not have.
    raise TypeError(f"the type {name_of(type_)} has no JSON schema")


def _check_classes(annotation: Any) -> None:
    """Refuse a class of which msgspec makes something else than it declares, or an error that does not name it."""
    for found in object_types(annotation):
        cls: Any = found.cls
        if hasattr(cls, "__pydantic_validator__"):
            # msgspec fills it in itself.
            raise TypeError(
                f"{name_of(cls)} is a pydantic dataclass, whose validators would not run; make it a pydantic.BaseModel"
            )
        for field in found.fields:
            if field.default is NODEFAULT or field.default is UNSET:
                continue
            try:
                msgspec.to_builtins(field.default, str_keys=True)
            except Exception as error:
                raise TypeError(
                    f"{name_of(cls)}.{field.name} has a default without a JSON form; give it a default_factory"
                ) from error


def _property(parameter: Parameter, text: str | None, tool: str) -> JsonObject:
    where = f"tool {tool!r}, parameter {parameter.name!r}"
    try:
        schema = schema_of(parameter.annotation)
    except ValueError as error:
        raise ConfigurationError(
            f"{where}: {error}, and some providers take no schema that does; limit how deep it goes, or take a dict "
            "and describe in the docstring what is in it"
        ) from error
    except Exception as error:
        raise ConfigurationError(f"{where}: {error or repr(error)}; {HINT}") from error
    # Over the description of the class that is its type: this one is about the parameter.
    if text := (_annotated_text(parameter.annotation) or text):
        schema["description"] = text
    if not parameter.required:
        _set_default(schema, parameter.default, parameter.annotation)
    return schema


def _annotated_text(annotation: Any) -> str | None:
    """The text in ``Annotated[int, "how many"]``, or the description of a ``msgspec.Meta`` or ``pydantic.Field``."""
    if typing.get_origin(annotation) is not Annotated:
        return None
    notes = typing.get_args(annotation)[1:]
    texts = [getattr(note, "description", note) for note in notes]
    return next((text for text in reversed(texts) if isinstance(text, str)), None)


def _set_default(schema: JsonObject, default: object, annotation: Any) -> None:
    """Show a default to the model, if it is one that the model could send itself."""
    try:
        encoded = msgspec.json.encode(to_json_value(default))
        JsonDecoder(annotation).decode(encoded)
    except Exception:
        return
    schema["default"] = msgspec.json.decode(encoded)


def _inline(schema: JsonObject, components: Mapping[str, Any], trail: tuple[str, ...]) -> JsonObject:
    """The schema with its references replaced. ``trail`` names the references that lead to it."""
    out: JsonObject = {}
    if isinstance(ref := schema.get("$ref"), str) and ref.startswith(PREFIX):
        name = ref.removeprefix(PREFIX)
        if name in trail:
            raise ValueError(f"the type {name} refers to itself")
        out.update(_inline(components[name], components, (*trail, name)))
    if "enum" in schema and "type" not in schema:
        out["type"] = _type_of(cast("list[Json]", schema["enum"]))
    if "const" in schema:
        out["enum"] = [schema["const"]]
        out.setdefault("type", _type_of([schema["const"]]))
    for key, value in schema.items():
        if key not in LEFT_OUT:
            out[key] = _inline_value(key, value, components, trail)
    return out


def _inline_value(key: str, value: Json, components: Mapping[str, Any], trail: tuple[str, ...]) -> Json:
    if key in ONE and isinstance(value, dict):
        return _inline(value, components, trail)
    if key in SOME and isinstance(value, list):
        return [_inline(cast("JsonObject", part), components, trail) for part in value]
    if key in NAMED and isinstance(value, dict):
        return {k: _inline(cast("JsonObject", v), components, trail) for k, v in value.items()}
    return value


def _type_of(values: Sequence[Json]) -> Json:
    types = list[Json](dict.fromkeys(TYPES[type(value)] for value in values))
    return types[0] if len(types) == 1 else types


def _keep_defaults(annotation: Any, components: dict[str, Any]) -> None:
    """Put back the lists and other containers that are defaults of nested fields, which msgspec leaves out.

    Defaults of other sorts that a factory makes, such as the time of day, would be wrong tomorrow.
    """
    for found in object_types(annotation):
        defaults = {field.encode_name: _made_by(field) for field in found.fields}
        kept: JsonObject = {n: value for n, value in defaults.items() if isinstance(value, list | dict)}
        if not kept:
            continue
        ((schema,), _) = msgspec.json.schema_components([found.cls], ref_template="{name}", schema_hook=_custom)
        properties = components.get(cast("str", schema["$ref"]), {}).get("properties", {})
        for name, default in kept.items():
            properties.get(name, {}).setdefault("default", default)


OBJECTS = (StructType, DataclassType, NamedTupleType)


def _made_by(field: Field) -> object:
    try:
        return msgspec.json.decode(msgspec.json.encode(to_json_value(field.default_factory())))
    except Exception:
        return None  # a factory that needs something that is not there yet, or makes what has no JSON form


def object_types(annotation: Any) -> Iterator[StructType | DataclassType | NamedTupleType]:
    """Every type with fields within a type, once, in whatever way they refer to each other."""
    seen: set[int] = set()
    waiting: list[object] = [type_info(annotation)]
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(cast("tuple[object, ...]", item))
        elif isinstance(item, Type | Field) and id(item) not in seen:
            seen.add(id(item))
            waiting.extend(getattr(item, name) for name in item.__struct_fields__)
            if isinstance(item, OBJECTS):
                yield item
