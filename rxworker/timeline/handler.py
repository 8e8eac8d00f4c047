"""Handlers: what is called with the events of a kind, and the scope it is called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar, cast

E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
S = TypeVar("S")


class Handler(Protocol[E_contra, S]):
    """Something that handles the events of one kind, with a scope of its own choosing.

    For a block kind each block has its own scope, from its start to its stop or abort. For a meta kind there is one,
    from the registration on.

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


HandlerLike: TypeAlias = Handler[E, S] | Callable[[E], None]
"""A handler, or a function that needs no scope."""


class Registration:
    """A handler where it is registered, and its open scopes. Types are known again at both ends."""

    __slots__ = ("_handler", "_scopes")

    def __init__(self, handler: HandlerLike[Any, Any]) -> None:
        if hasattr(handler, "on_event"):
            self._handler = cast("Handler[Any, Any]", handler)
        else:
            self._handler = _Plain(cast("Callable[[Any], None]", handler))
        self._scopes: dict[int | None, Any] = {}

    def open(self, key: int | None) -> None:
        """Make a scope: of the block ``key``, or with ``None`` of the registration."""
        self._scopes[key] = self._handler.scope()

    def deliver(self, key: int | None, event: object) -> None:
        """Call the handler. A scope that is not open is opened."""
        scopes = self._scopes
        if key not in scopes:
            self.open(key)
        self._handler.on_event(scopes[key], event)

    def close(self, key: int | None) -> None:
        """Drop a scope."""
        self._scopes.pop(key, None)


class _Plain:
    """A function as a handler."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[Any], None]) -> None:
        self._call = call

    def scope(self) -> None:
        return None

    def on_event(self, scope: None, event: Any, /) -> None:  # noqa: ARG002 - it has none
        self._call(event)


__all__ = ["Handler", "HandlerLike", "Registration"]
