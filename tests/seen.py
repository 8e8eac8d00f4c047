"""What comes out of operators."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import reactivex
from reactivex import Observable

Operator = Callable[[Observable[Any]], Observable[Any]]


def outcome(items: Iterable[Any], *operators: Operator) -> tuple[list[Any], list[Exception]]:
    """What the operators make of the items, and the error with which it ends."""
    seen: list[Any] = []
    errors: list[Exception] = []
    reactivex.from_iterable(items).pipe(*operators).subscribe(seen.append, errors.append)
    return seen, errors


def through(items: Iterable[Any], *operators: Operator) -> list[Any]:
    """What the operators make of the items, which is no error."""
    seen, errors = outcome(items, *operators)
    assert errors == []
    return seen


async def until_end(source: Observable[Any]) -> tuple[list[Any], Exception | None]:
    """What comes out of a source until it ends, and the error with which it does."""
    seen: list[Any] = []
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
    source.subscribe(seen.append, ended.set_result, lambda: ended.set_result(None))
    return seen, await ended
