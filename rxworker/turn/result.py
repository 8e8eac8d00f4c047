"""The result of a run: finished or paused, with its answer as a value. Any other outcome raises an exception.

`result_of` makes the result of the last state. A paused call carries a signature of the arguments that were shown. The
answer is a value of a type of the program, or, in a process that does not know the type, the JSON of its stored schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

import msgspec
from msgspec import Struct, field

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.events import PauseState
from rxworker.events.pause import BackgroundCall
from rxworker.messages import Conversation, Json, JsonObject, OutputFormat, StopReason, ToolCall
from rxworker.messages.custom_types import JsonDecoder
from rxworker.messages.settings import shared_fields
from rxworker.messages.usage import Prices, Usage
from rxworker.state import RunState
from rxworker.tools.schema import HINT, schema_of

if TYPE_CHECKING:
    # A run without an output type is a ``Run``, and a resumed one may have any. Until Python 3.13 only the type checker
    # knows of defaults.
    from typing_extensions import TypeVar

    T_co = TypeVar("T_co", covariant=True, default=None)
    T = TypeVar("T", default=None)
    R = TypeVar("R", default=Any)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)
    T, R = TypeVar("T"), TypeVar("R")

F = TypeVar("F")
F_co = TypeVar("F_co", covariant=True)

FENCE = "```"
TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


class Output(Generic[F_co]):
    """The type of an answer.

    Providers require an object at the root. Any other type is wrapped in an object, as its only member.

    Args:
        type_: A Struct, a dataclass, a TypedDict, a pydantic model, or any other type that the arguments of a tool may
            have.

    Attributes:
        format: What is requested, and stored with the run.

    Raises:
        ConfigurationError: The type has no JSON schema.

    >>> output = Output(list[int])
    >>> output.decode('{"value": [1, 2]}')
    [1, 2]
    """

    def __init__(self, type_: type[F_co]) -> None:
        name: str = getattr(type_, "__name__", "output")
        try:
            schema = schema_of(type_)
            self._decoder: JsonDecoder[F_co] | _SchemaDecoder = JsonDecoder(type_)
        except (TypeError, ValueError) as error:
            message = f"{type_!r} cannot be the output of a run: {error}; {HINT}"
            raise ConfigurationError(message) from error
        self._is_wrapped = schema.get("type") != "object"
        self.format = OutputFormat(_wrapped(schema) if self._is_wrapped else schema, name)

    @classmethod
    def from_format(cls, form: OutputFormat) -> Output[Any]:
        """The output of a stored run in a process that does not know its type: the value is JSON.

        The types, the members and the items are checked, but not all that a type may require, such as a pattern.

        >>> Output.from_format(Output(list[int]).format).decode('{"value": [1, 2]}')
        [1, 2]
        """
        output: Output[Any] = cls.__new__(cls)
        properties = form.schema.get("properties")
        inner = properties.get("value") if isinstance(properties, dict) else None
        output._is_wrapped = isinstance(inner, dict) and form.schema == _wrapped(inner)
        output._decoder = _SchemaDecoder(
            inner if output._is_wrapped else form.schema, "$.value" if output._is_wrapped else "$"
        )
        output.format = form
        return output

    def decode(self, text: str) -> F_co:
        """Decode the text.

        Raises:
            msgspec.DecodeError: It is not JSON, or does not fit the type; the message names the path.
        """
        text = _bare(text)
        if not self._is_wrapped:
            return self._decoder.decode(text)
        whole = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        if "value" not in whole:
            raise msgspec.ValidationError("Object missing required field `value`")
        return self._decoder.decode(bytes(whole["value"]))

    def read(self, text: str) -> JsonObject:
        """Return the JSON of a text that is valid, as ``format.schema`` describes it.

        >>> Output(list[int]).read('{"value": [1, 2]}')
        {'value': [1, 2]}
        """
        return msgspec.json.decode(_bare(text))

    def complaint(self, text: str) -> str | None:
        """The error in the text, for the model to correct; ``None`` if the text is valid."""
        try:
            self.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            return (
                f"The answer does not fit the requested format: {error}. "
                "Answer again with the whole corrected JSON and nothing else."
            )
        return None


def output_of(type_: type[F] | None) -> Output[F] | None:
    """The type of an answer, if one is requested."""
    return None if type_ is None else Output(type_)


def _wrapped(schema: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"value": schema}, "required": ["value"], "additionalProperties": False}


def _bare(text: str) -> str:
    """The text without the fence that some models put around JSON."""
    text = text.strip()
    if not (text.startswith(FENCE) and text.endswith(FENCE) and "\n" in text):
        return text
    return text[text.index("\n") : -len(FENCE)].strip()


class _SchemaDecoder:
    """Decodes JSON, and checks it against a schema, as far as `schema_of` makes one."""

    def __init__(self, schema: Json, path: str) -> None:
        self._schema = schema
        self._path = path

    def decode(self, data: str | bytes) -> Any:
        """The JSON.

        Raises:
            msgspec.DecodeError: It is not JSON, or does not fit the schema; the message names the path.
        """
        value = msgspec.json.decode(data)
        found = _misfit(value, self._schema, self._path)
        if found is not None:
            raise msgspec.ValidationError(found)
        return value


def _misfit(value: Json, schema: Json, path: str) -> str | None:
    """The first place where a value does not fit a schema; ``None`` if it fits.

    What is not known of the schema is fulfilled.
    """
    if not isinstance(schema, dict):
        return None
    for several in ("anyOf", "oneOf"):
        options = schema.get(several)
        if isinstance(options, list) and options:
            found = [_misfit(value, each, path) for each in options]
            if None not in found:
                return found[0]
    allowed = schema.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return f"invalid value {value!r} - at `{path}`"
    wanted = schema.get("type")
    names = [wanted] if isinstance(wanted, str) else wanted if isinstance(wanted, list) else []
    if names and not any(_is_of(value, name) for name in names):
        expected = " or ".join(f"`{name}`" for name in names)
        return f"expected {expected}, got `{_name_of(value)}` - at `{path}`"
    if isinstance(value, dict):
        return _misfit_of_object(value, schema, path)
    if isinstance(value, list):
        found = (_misfit(each, schema.get("items"), f"{path}[{at}]") for at, each in enumerate(value))
        return next((each for each in found if each is not None), None)
    return None


def _misfit_of_object(value: JsonObject, schema: JsonObject, path: str) -> str | None:
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if isinstance(name, str) and name not in value:
            return f"missing required field `{name}` - at `{path}`"
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    known = properties if isinstance(properties, dict) else {}
    for name, each in value.items():
        if name in known:
            found = _misfit(each, known[name], f"{path}.{name}")
        else:
            found = (
                f"unknown field `{name}` - at `{path}`" if others is False else _misfit(each, others, f"{path}.{name}")
            )
        if found is not None:
            return found
    return None


def _is_of(value: Json, name: Json) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return not isinstance(name, str) or name not in TYPES or isinstance(value, TYPES[name])


def _name_of(value: Json) -> str:
    if isinstance(value, dict):
        return "object"
    return "array" if isinstance(value, list) else type(value).__name__


def signature_of(call: ToolCall) -> str:
    """A digest of a call: its id, its name and its exact arguments.

    >>> signature_of(ToolCall("1", "look", {"at": "a"})) == signature_of(ToolCall("1", "look", {"at": "b"}))
    False
    """
    # Not with msgspec: a model may write half of a surrogate pair, which UTF-8 cannot encode.
    text = json.dumps([call.id, call.name, call.input], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def check_signatures(calls: Sequence[ToolCall], signatures: Sequence[str]) -> None:
    """Reject calls that differ from the calls that were shown for the decision.

    Raises:
        LocalProtocolError: A call differs; the message names it.
    """
    if len(calls) != len(signatures):
        raise LocalProtocolError(f"{len(signatures)} calls were paused, and {len(calls)} are to be resumed")
    for call, signature in zip(calls, signatures, strict=True):
        if signature_of(call) != signature:
            raise LocalProtocolError(
                f"the call {call.id!r} of {call.name} was changed since the run paused: what was approved may not be "
                "what would run; give other arguments with decisions={call.id: Approve(input={...})}"
            )


class RunResult(Struct, Generic[T_co], frozen=True):
    """The base of the results.

    Attributes:
        conversation: The conversation, with the answer at its end.
        text: The visible text of the last answer.
        usage: The tokens of all requests of the run, nested runs included.
        turns: How many turns it took.
        stop_reason: Why the last response ended.
        run_id: The run's id.
        output: The answer as a value, if a type was requested; ``None`` if the model refused.
        shared_state: The state that its tools and hooks share with user interfaces; ``None`` if there is none.
    """

    conversation: Conversation
    text: str
    usage: Usage
    turns: int
    stop_reason: StopReason | None
    run_id: str = field(name="run")
    output: T_co | None = None
    shared_state: Json = None


class Finished(RunResult[T_co], Generic[T_co], frozen=True):
    """The model has answered."""


class Paused(RunResult[T_co], Generic[T_co], frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A hook paused the run, or `Run.pause` did; ``worker.resume()`` continues it.

    Attributes:
        pause: What it waits for.
        signatures: A digest of each call of the pause, so that exactly the call that was shown will run.
        is_foreign: Whether it was imported: hooks and people have agreed to its calls elsewhere, which does not count
            here.
        tool_calls: How many tools the run has started, those of nested runs included, as for the next three.
        tool_errors: How many of them have failed.
        tool_seconds: How long they took together.
        tool_durations: How many of them took how long, as in `RunState`.
        usage_by_model: The tokens by the names of the models.
        prices: Their prices, where requests have recorded them.
        continuations: How often hooks have sent an answer back.
        variables: The variables of hooks and tools; the resumed run has them again. `save_paused` accepts JSON values
            only.
        called: The names of the tools that the model has called in the run, each once.
        traceparent: The trace context of the caller of the run; see `RunStart`.
        output_format: The form of the answer, if a type was requested: the resumed run requests it again.
        background: The calls in the background that have no result yet; see `BackgroundCall`.
        nested: Without a log, the paused runs that its calls have begun, by their ids.
    """

    pause: PauseState
    signatures: tuple[str, ...]
    is_foreign: bool
    tool_calls: int = 0
    continuations: int = 0
    variables: dict[str, object] = {}
    called: tuple[str, ...] = ()
    traceparent: str = ""
    output_format: OutputFormat | None = None
    tool_errors: int = 0
    tool_seconds: float = 0.0
    tool_durations: tuple[int, ...] = ()
    usage_by_model: dict[str, Usage] = {}
    prices: dict[str, Prices | None] = {}
    background: tuple[BackgroundCall, ...] = ()
    nested: dict[str, Paused[Any]] = {}

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The tool calls that wait, in order, with their exact arguments; those in runs inside follow their calls."""
        return self.pause.pending

    @property
    def paused_at(self) -> str | None:
        """The ``id`` of the call that it paused at.

        ``None`` at the end of a turn, for ``client_tool``, and for `Run.pause`.
        """
        at = self.pause.at
        return None if at is None else self.pause.calls[at].call.id

    @property
    def hook(self) -> str:
        """The name of the hook that requested the pause; see `PauseState`."""
        return self.pause.hook

    @property
    def reason(self) -> str:
        """The reason that was given."""
        return self.pause.reason


def result_of(
    state: RunState,
    run_id: str,
    output: Output[T] | None,
    variables: Mapping[str, object],
    called: Iterable[str],
    *,
    is_foreign: bool = False,
    nested: Mapping[str, Paused[Any] | None] = {},
) -> RunResult[T]:
    """The result of the last state of a run.

    A paused run keeps the variables, and the names of the tools that were called. The variables are in no record, so no
    watcher receives them.
    """
    text, pause = answer_of(state.conversation), state.pause
    carried = shared_fields(state, Finished if pause is None else Paused)
    carried.update(text=text, usage=state.usage, run_id=run_id)
    if pause is None:
        if output is not None and not output.complaint(text):
            carried["output"] = output.decode(text)
        return Finished(**carried)
    carried["tool_calls"] = state.all_tool_calls
    return Paused(
        **carried,
        signatures=tuple([signature_of(call) for call in pause.pending]),
        is_foreign=is_foreign,
        usage_by_model=state.usage_by_model,
        variables=dict(variables),
        called=tuple(called),
        nested={node.inner_run: kept for node in pause.tree if (kept := nested.get(node.inner_run)) is not None},
    )


def answer_of(conversation: Conversation) -> str:
    """The text of the model's last message."""
    for message in reversed(conversation.messages):
        if message.role == "assistant":
            return message.text
    return ""
