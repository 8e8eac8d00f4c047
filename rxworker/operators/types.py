"""The two shapes that everything in this room has: operators and steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

from reactivex import Observable

A = TypeVar("A")
B = TypeVar("B")
S = TypeVar("S")

Operator: TypeAlias = Callable[[Observable[A]], Observable[B]]
"""A function from one observable to another: what ``pipe`` takes."""

Step: TypeAlias = Callable[[S, A], S]
"""A pure function from a state and what happened to the next state: what ``scan`` takes."""

__all__ = ["Operator", "Step"]
