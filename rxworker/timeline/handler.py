"""Handlers: what is called with the events of a kind, the scope it is called with, and what it raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakMethod

from reactivex import abc

from rxworker.errors import ConfigurationError
from rxworker.events.deltas import Deltas
from rxworker.timeline.kind import Kind

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
S = TypeVar("S")
S_contra = TypeVar("S_contra", contravariant=True)


class Handler(Protocol[E_contra, S]):
    """Something that handles the events of one kind, with a scope of its own choosing.

    For a block kind each block has its own scope, from its start to its stop or abort. For a meta kind there is one,
    from the registration on.

    It may also have a method ``on_retract(reason)``, which is called when the response so far is retracted.

    >>> class Shout:
    ...     def scope(self) -> list[str]:
    ...         return []
    ...     def on_event(self, scope: list[str], event: str) -> None:
    ...         scope.append(event.upper())
    >>> shout: Handler[str, list[str]] = Shout()
    """

    def scope(self) -> S:
        """A fresh scope."""
        ...

    def on_event(self, scope: S, event: E_contra, /) -> None:
        """An event, and the scope that it belongs to."""
        ...


class Gatherer(Protocol[S_contra]):
    """A handler that only gathers, so that it may be given the deltas of a block together."""

    def gather(self, scope: S_contra, deltas: Deltas[Any], /) -> None:
        """Several deltas of one block, of one type, one behind the other."""
        ...


HandlerLike: TypeAlias = Handler[E, S] | Callable[[E], None]
"""A handler, or a function that needs no scope."""


class Registration(abc.DisposableBase):
    """A handler where it is registered. Types are known again at both ends. Disposing it calls what it was given for that.

    Attributes:
        kind: Which events the handler is for.
        scope: Makes a scope.
        on_event: Takes an event, with its scope.
        gather: Takes several deltas of a block together, with its scope; ``None`` where they have to come one by one.
        on_retract: Called with the reason when a response is retracted; ``None`` where the handler has no such method.
        begin: Called when a response begins; ``None`` for others than collectors.
    """

    __slots__ = (
        "_remove",
        "begin",
        "gather",
        "kind",
        "on_event",
        "on_retract",
        "scope",
    )

    def __init__(
        self,
        kind: Kind[object],
        handler: HandlerLike[Any, Any],
        remove: WeakMethod[Callable[[Registration], None]],
    ) -> None:
        self.kind = kind
        known: Any = handler
        if isinstance(handler, type) and hasattr(known, "on_event"):
            name = handler.__name__
            raise ConfigurationError(f"{name} is a class: give a handler, for example {name}()")
        if not hasattr(known, "on_event"):
            known = _Plain(known)
        elif not hasattr(known, "scope"):
            message = f"{handler!r} has on_event and no scope(), which a handler makes a scope with"
            raise ConfigurationError(message)
        self.scope: Callable[[], Any] = known.scope
        self.on_event: Callable[[Any, Any], None] = known.on_event
        self.gather: Callable[[Any, Sequence[Any]], None] | None = getattr(known, "gather", None)
        self.on_retract: Callable[[str], None] | None = getattr(known, "on_retract", None)
        self.begin: Callable[[], None] | None = getattr(known, "begin_response", None)
        self._remove = remove  # weak: the timeline holds this

    def dispose(self) -> None:
        """Remove the handler and its scopes."""
        remove = self._remove()
        if remove is not None:
            remove(self)


class _Plain:
    """A function as a handler."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], None]) -> None:
        if not callable(call):
            message = f"{call!r} is no handler: give a function of an event, or an object with scope() and on_event()"
            raise ConfigurationError(message)
        self._call = call

    def scope(self) -> None:
        return None

    def on_event(self, scope: None, event: Any, /) -> None:  # noqa: ARG002 - it has none
        self._call(event)


def raise_all(failures: list[BaseException]) -> None:
    """Raise what handlers have raised, if anything, as one; an interrupt as it is."""
    for failure in failures:
        if len(failures) == 1 or isinstance(failure, KeyboardInterrupt):
            raise failure
    if failures:
        raise BaseExceptionGroup("several handlers failed", failures)
