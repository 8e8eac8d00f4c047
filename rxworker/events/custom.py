"""Events of the application, with a type of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from rxworker.errors import ConfigurationError, LogError
from rxworker.events.turn import Custom
from rxworker.messages.json import Json

if TYPE_CHECKING:
    from typing import Self


class CustomEvent(Struct, frozen=True):
    """The base of an event of the application: a Struct with a name, the ``tag``.

    Hooks and tools emit one with ``context.emit``, stages and operators as an item. It is recorded as a `Custom`, so
    that a process which does not know the class loses nothing, and ``only(Score)`` emits it with its type.

    >>> class Score(CustomEvent, frozen=True, tag="acme.score"):
    ...     value: float
    >>> Score(0.9).custom
    Custom(name='acme.score', data={'value': 0.9})
    >>> Score.of(Score(0.9).custom), Score.of(Custom("acme.other"))
    (Score(value=0.9), None)
    """

    @property
    def custom(self) -> Custom:
        """The event as it is recorded.

        Raises:
            ConfigurationError: Its class has no ``tag``, a field has no JSON form, or the class does not take what is
                recorded, such as ``NaN``, which JSON does not have.
        """
        name = event_name(type(self))
        try:
            data: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"the event {name} has no JSON form: {error}") from error
        if self.__struct_config__.array_like:
            raise ConfigurationError(f"the event {name} is recorded by the names of its fields: leave out array_like")
        data.pop(str(self.__struct_config__.tag_field), None)
        event = Custom(name, data)
        try:
            self.of(event)
        except LogError as error:  # each reader would fail
            raise ConfigurationError(f"{error}: give it a value of that type") from error
        return event

    @classmethod
    def of(cls, event: object) -> Self | None:
        """The event with its type, of what was recorded; ``None`` of any other event.

        Raises:
            LogError: The data of an event of this name do not fit the class.
        """
        if not isinstance(event, Custom) or event.name != event_name(cls):
            return None
        try:
            return msgspec.convert(event.data, cls, str_keys=True)
        except msgspec.ValidationError as error:
            raise LogError(f"an event {event.name} does not fit {cls.__name__}: {error}") from error


ShortText: TypeAlias = Annotated[str, Meta(max_length=100)]
LongText: TypeAlias = Annotated[str, Meta(max_length=10_000)]


class Annotation(CustomEvent, frozen=True, tag="rxworker.annotation", omit_defaults=True):
    """A judgement of a run by a person or a program, such as a rating or a correction; see `EventLog.annotate`.

    Panels, searches and pages read it as any event of the application: ``only(Annotation)``.

    Attributes:
        name: What is judged, such as ``rating`` or ``correct``; the same name for the same question. 1 to 100
            characters.
        value: The judgement: a text, a number, a truth value or other JSON.
        comment: Why, in words, up to 10,000 characters: shown to users; not interpreted.
        by: The person or the program; empty if it is not known.
        seq: The number of the record that it is about; 0 for the whole run.

    >>> Annotation("correct", False, "Kyoto has no sea.", by="anna").custom.data
    {'name': 'correct', 'value': False, 'comment': 'Kyoto has no sea.', 'by': 'anna'}
    """

    name: Annotated[ShortText, Meta(min_length=1)]
    value: Json
    comment: LongText = ""
    by: str = ""
    seq: int = 0


class GateVerdict(CustomEvent, frozen=True, tag="rxworker.gate", omit_defaults=True):
    """What the checks of `rxworker.operators.hold_back` decided about a block or a value. It has nothing of its text.

    Attributes:
        check: The name of the check that refused it; of all checks, if it passed.
        kind: What it is: ``text``, ``thinking``, ``refusal``, ``arguments``, ``progress``, ``result``, ``event``, and
            so on.
        verdict: ``pass``: all of it passed. ``replace``: a part did not, at the first such part. ``refuse``: so that
            the stream fails.
        seconds: The longest time that the checks of one window were awaited; 0 for plain functions.
        windows: How many windows were checked until then.
        block: The index of the block in its response.
        call_id: The id of the tool call.

    >>> GateVerdict("is_clean", "text", "pass", 0.1, 2, block=0).custom.data["verdict"]
    'pass'
    """

    check: str
    kind: str
    verdict: Literal["pass", "replace", "refuse"]
    seconds: float
    windows: int
    block: int | None = None
    call_id: str = ""


def custom_of(event: object) -> Custom:
    """An event that a hook or a tool emits, as it is recorded.

    Raises:
        ConfigurationError: It is not an event of the application; or as for `CustomEvent.custom`.

    >>> custom_of("done")
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: context.emit takes an event of the application, not 'done': give it a value \
of a class of yours, such as class Score(CustomEvent, frozen=True, tag="acme.score")
    """
    if isinstance(event, CustomEvent):
        return event.custom
    raise ConfigurationError(
        f"context.emit takes an event of the application, not {event!r:.80}: give it a value of a class of yours, such "
        'as class Score(CustomEvent, frozen=True, tag="acme.score")'
    )


def event_name(kind: type[CustomEvent]) -> str:
    """The name of the events of a class.

    Raises:
        ConfigurationError: The class has no ``tag``, or one that may be that of an event of the library in a protocol
            for clients.
    """
    tag = kind.__struct_config__.tag
    example = f'class {kind.__name__}(CustomEvent, frozen=True, tag="acme.{kind.__name__.lower()}")'
    if not isinstance(tag, str):
        raise ConfigurationError(f"the event {kind.__name__} has no name: write {example}")
    owner, dot, _ = tag.partition(".")
    is_taken = owner == "rxworker" and kind not in (
        Annotation,
        GateVerdict,
    )  # those of the library, as clients get them
    if not dot or not owner or is_taken:
        raise ConfigurationError(
            f"the event {kind.__name__} is called {tag!r:.60}: begin it with a name of yours, {example}"
        )
    return tag
