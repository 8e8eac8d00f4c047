"""Ending a run that nobody watches any more, for applications that want that."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from reactivex import abc
from reactivex.disposable import CompositeDisposable, Disposable, SerialDisposable

from rxworker.errors import ConfigurationError
from rxworker.hub import Hub


def when_unobserved(
    hub: Hub, grace: float, scheduler: abc.SchedulerBase, act: Callable[[], None]
) -> abc.DisposableBase:
    """Call a function when nobody has watched for a while.

    Args:
        hub: Whose watchers count.
        grace: Seconds without any. They begin now, if there are none.
        scheduler: Whose time it is.
        act: What to call, once.

    Returns:
        Forgets about it.

    Raises:
        ConfigurationError: The grace is no time.
    """
    given = cast("object", grace)
    if not (isinstance(given, int | float) and given >= 0):  # nothing is above what is no number
        raise ConfigurationError(f"grace={grace!r}: it is a number of seconds, 0 or more")
    timer = SerialDisposable()
    is_waiting = is_over = False

    def over(_: abc.SchedulerBase, __: object = None) -> None:
        nonlocal is_over
        if is_waiting and not is_over and not hub.watching and not hub.ended:
            is_over = True
            take_away()
            act()

    def look() -> None:
        nonlocal is_waiting
        is_lonely = not hub.watching and not hub.ended and not is_over
        if is_lonely != is_waiting:
            is_waiting = is_lonely
            timer.disposable = scheduler.schedule_relative(grace, over) if is_lonely else None

    take_away = hub.add_bell(look)
    look()
    return CompositeDisposable(Disposable(take_away), timer)


__all__ = ["when_unobserved"]
