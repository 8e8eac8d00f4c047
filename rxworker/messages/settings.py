"""Settings: Structs that a program makes, whose values and names are checked where they are written."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Collection, Iterable
from datetime import UTC, datetime
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct, StructMeta

from rxworker.errors import ConfigurationError, nearest, page_of

C = TypeVar("C", bound=type)

A = TypeVar("A")


class _SettingsMeta(StructMeta):
    """Reports a setting that does not exist, with the nearest that does."""

    if not TYPE_CHECKING:  # the call has the types of the fields

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            check_names(self.__name__, kwargs, self.__struct_fields__)
            return super().__call__(*args, **kwargs)


class Settings(Struct, frozen=True, metaclass=_SettingsMeta):
    """The base of settings.

    Raises:
        ConfigurationError: There is no setting of this name.

    >>> class Pace(Settings, frozen=True):
    ...     seconds: float = 1.0
    >>> Pace(second=2.0)
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: Pace has no setting 'second'; did you mean 'seconds'?
    """


AWAITED = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def is_coroutine_function(function: object) -> bool:
    """Whether what it returns must be awaited or iterated with ``async for``.

    Of ``async def``, a `functools.partial` of it, or an object whose ``__call__`` is one.

    >>> async def look() -> None: ...
    >>> is_coroutine_function(look), is_coroutine_function(partial(look)), is_coroutine_function(print)
    (True, True, False)
    """
    while isinstance(function, partial):
        function = function.func
    known: Any = function
    code = getattr(known, "__code__", None) or getattr(type(known).__call__, "__code__", None)
    return code is not None and code.co_flags & AWAITED != 0


async def awaited(result: A | Awaitable[A]) -> A:
    """What a function has returned, plain or coroutine function."""
    known: Any = result
    return await known if inspect.isawaitable(known) else known


def check_plain(name: str, *functions: object, instead: str = "") -> None:
    """Refuse coroutine functions where a function is called and nothing can await what it returns.

    Args:
        name: The argument as it is written, for the message.
        functions: What was given, functions or not.
        instead: What else to do.

    Raises:
        ConfigurationError: One is a coroutine function.
    """
    for function in functions:
        if function is None:
            continue
        code = getattr(function, "__code__", None)  # that of most, without a call for each
        if (code is None or code.co_flags & AWAITED) and is_coroutine_function(function):
            raise ConfigurationError(
                f"{name}: give a plain function, not a coroutine function, which nothing awaits there{instead}"
            )


def check_names(owner: str, names: Iterable[str], known: Collection[str]) -> None:
    """Check that settings exist.

    Args:
        owner: Their owner, for the message.
        names: The names that were given.
        known: The names of its settings.

    Raises:
        ConfigurationError: There is no setting of a name.

    >>> check_names("Pace", ["second"], ["seconds"])
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: Pace has no setting 'second'; did you mean 'seconds'?
    """
    for name in names:
        if name not in known:
            remedy = nearest(name, known) or f"; it has: {', '.join(known)}"
            raise ConfigurationError(f"{owner} has no setting {name!r}{remedy}")


def checks_arguments(cls: C) -> C:
    """Report arguments that the constructor of a class does not take.

    By the name of that class, with the nearest argument.

    >>> @checks_arguments
    ... class Shop:
    ...     def __init__(self, name: str, *, opens: int = 8) -> None: ...
    >>> Shop("bakery", open=9)
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: Shop(...) got an unexpected keyword argument 'open'; did you mean 'opens'?
    """
    given: Any = cls
    make = given.__init__

    @wraps(make)
    def checked(self: object, *args: Any, **kwargs: Any) -> None:
        try:
            make(self, *args, **kwargs)
        except TypeError:
            _check_arguments(type(self), make, (self, *args), kwargs)
            raise

    given.__init__ = checked
    return cls


def shared_fields(value: Struct, kind: type[Struct]) -> dict[str, Any]:
    """The fields of a value that another type has too, with which one of these is made.

    >>> class Seen(Struct):
    ...     at: float
    ...     by: str = ""
    >>> class Note(Struct):
    ...     at: float
    >>> Note(**shared_fields(Seen(1.0, "me"), Note))
    Note(at=1.0)
    """
    shared = {*value.__struct_fields__}.intersection(kind.__struct_fields__)
    return {name: getattr(value, name) for name in shared}


def _check_arguments(cls: type, make: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    from inspect import signature  # after a mistake only

    takes = signature(make)
    try:
        takes.bind(*args, **kwargs)
    except TypeError as error:
        itself, *_ = takes.parameters
        known = {**signature(cls).parameters, **takes.parameters}  # a base may not have them all
        remedy = nearest(min(kwargs.keys() - known.keys(), default=""), known)
        if not remedy:
            named = [name for name, at in known.items() if at.kind is at.KEYWORD_ONLY]
            first = [name for name in takes.parameters if name not in (itself, *named)]
            remedy = f"; it takes {', '.join(first)}, and by name: {', '.join(named)}"
        message = f"{cls.__name__}(...) {error}{remedy}"
        raise ConfigurationError(message, page=page_of(cls.__module__)) from None


def check_number(
    name: str,
    value: object,
    *,
    least: float = 0.0,
    above: float | None = None,
    whole: bool = False,
    optional: bool = False,
) -> None:
    """Check a number of a setting or an argument.

    Args:
        name: The setting as it is written, for the message.
        value: Its value.
        least: The lowest value, unless ``above`` is given.
        above: The number that it must exceed.
        whole: Whether it is a whole number.
        optional: Whether it may be ``None``.

    Raises:
        ConfigurationError: It is not such a number.

    >>> check_number("Retry(retries)", -1, whole=True)
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: Retry(retries)=-1: give a whole number from 0 up
    """
    if value is None and optional:
        return
    known: Any = value
    is_number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if is_number and (known >= least if above is None else known > above):
        return
    kind = "a whole number" if whole else "a number"
    bound = f"from {least:g} up" if above is None else f"above {above:g}"
    none = ", or None" if optional else ""
    raise ConfigurationError(f"{name}={value!r:.60}: give {kind} {bound}{none}")


def moment_of(name: str, given: datetime | float, since: float = 0.0) -> float:
    """A moment in seconds since the epoch.

    Args:
        name: What it is, for the error.
        given: A time with a zone, or a number of seconds.
        since: From when the seconds count, in seconds since the epoch.

    Raises:
        ConfigurationError: It is neither, or a time without a zone.

    >>> moment_of("at", 5.0, since=100.0)
    105.0
    """
    if isinstance(given, datetime):
        if given.tzinfo is None:
            text = (
                f"{name}={given!r}: a time needs a zone, such as datetime(2027, 1, 4, 9, tzinfo=ZoneInfo('Asia/Tokyo'))"
            )
            raise ConfigurationError(text)
        return given.timestamp()
    check_number(name, given)
    try:
        datetime.fromtimestamp(since + given, UTC)
    except (OverflowError, ValueError, OSError) as error:
        raise ConfigurationError(f"{name}={given!r}: this is after the year 9999; it is in seconds") from error
    return since + given


def utc(moment: float) -> str:
    """A moment, as it is shown to users.

    >>> utc(0.0)
    '1970-01-01 00:00:00 UTC'
    """
    return f"{datetime.fromtimestamp(moment, UTC):%Y-%m-%d %H:%M:%S} UTC"


def check_type(name: str, value: A, kind: type | tuple[type, ...], example: str, *, optional: bool = False) -> A:
    """Check the type of a setting or an argument, and return its value.

    Args:
        name: The setting as it is written, for the message.
        value: Its value, which the message does not contain.
        kind: The type, or several.
        example: How it is written.
        optional: Whether it may be ``None``.

    Raises:
        ConfigurationError: It is not of the type.

    >>> check_type("Options(stop_sequences)", "END", (tuple, list), "stop_sequences=('END',)")
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: Options(stop_sequences) is a str: give it like this: stop_sequences=('END',)
    """
    if (value is None and optional) or isinstance(value, kind):
        return value
    raise ConfigurationError(f"{name} is a {type(value).__name__}: give it like this: {example}")
