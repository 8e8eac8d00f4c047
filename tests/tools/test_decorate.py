from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import msgspec
import pytest

from rxworker import tool
from rxworker.errors import ConfigurationError
from rxworker.tools import ToolContext

if TYPE_CHECKING:
    from decimal import Decimal

P = ParamSpec("P")
B = TypeVar("B")


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


class App:
    """Tools that share an object."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting
        self.greeted: list[str] = []

    @tool
    async def greet(self, name: str) -> str:
        """Greet somebody.

        Args:
            name: Whom.
        """
        self.greeted.append(name)
        return f"{self.greeting} {name}"

    @tool(name="copy", timeout=5)
    def clone(self) -> App:
        """Make another one."""
        return App(self.greeting)

    @tool
    @staticmethod
    def shout(text: str) -> str:
        """Say it louder."""
        return text.upper()


def test_name_and_description_come_from_the_function() -> None:
    assert (add.meta.name, add.meta.description) == ("add", "Add two numbers.")


def test_a_decorated_function_is_called_as_before() -> None:
    assert add(1, b=2) == 3


def test_a_decorated_function_keeps_its_names() -> None:
    assert (add.__name__, add.__doc__, add.__module__) == ("add", "Add two numbers.", __name__)


def test_what_is_given_goes_before_what_is_read() -> None:
    @tool(name="sum-up", description="Sum.", timeout=2.5, effect="pure", retries=2)
    def add(a: int) -> int:
        """Not this."""
        return a

    assert (add.meta.name, add.meta.description) == ("sum-up", "Sum.")
    assert (add.policy.timeout, add.policy.effect, add.policy.retries) == (2.5, "pure", 2)


def test_a_tool_writes_and_has_no_time_out_by_default() -> None:
    assert (add.policy.timeout, add.policy.effect, add.policy.retries) == (None, "write", 0)


async def test_a_method_shares_its_object() -> None:
    app = App("hello")
    assert await app.greet.execute('{"name": "Ada"}') == "hello Ada"
    assert await app.greet("Bob") == "hello Bob"
    assert app.greeted == ["Ada", "Bob"]


async def test_two_objects_have_a_tool_each() -> None:
    first, second = App("hello"), App("goodbye")
    assert await second.greet.execute('{"name": "Ada"}') == "goodbye Ada"
    assert first.greeted == []


def test_a_method_has_no_self_in_its_schema() -> None:
    assert App("").greet.meta is App.greet.meta
    assert App.greet.meta.input_schema["required"] == ["name"]


def test_a_method_may_return_its_own_class() -> None:
    assert App("hi").clone().greeting == "hi"


async def test_a_static_method_is_a_function() -> None:
    assert await App.shout.execute('{"text": "hi"}') == "HI"


async def test_a_method_without_its_object_cannot_run() -> None:
    with pytest.raises(ConfigurationError, match="has no object"):
        await App.greet.execute('{"name": "Ada"}')


async def test_a_function_tool_in_a_class_stays_a_function() -> None:
    class Holder:
        plus = add

    assert await Holder.plus.execute('{"a": 1}') == "2"


async def test_a_bound_method_can_be_made_a_tool() -> None:
    class Counter:
        def __init__(self) -> None:
            self.total = 0

        def count(self, by: int) -> int:
            self.total += by
            return self.total

    counter = Counter()
    assert await tool(counter.count).execute('{"by": 2}') == "2"
    assert counter.total == 2


async def test_local_types_are_found() -> None:
    class Place(msgspec.Struct):
        city: str

    @tool
    def go(place: Place) -> str:
        return place.city

    class Guide:
        @tool
        def lead(self, place: Place) -> str:
            return place.city

    assert await go.execute('{"place": {"city": "Oslo"}}') == "Oslo"
    assert await Guide().lead.execute('{"place": {"city": "Oslo"}}') == "Oslo"


async def test_a_wrapped_function_keeps_the_signature_it_wraps() -> None:
    def twice(function: Callable[P, B]) -> Callable[P, B]:
        @functools.wraps(function)
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> B:
            function(*args, **kwargs)
            return function(*args, **kwargs)

        return wrapper

    calls: list[int] = []

    @tool
    @twice
    async def note(number: int) -> int:
        calls.append(number)
        return len(calls)

    # The first coroutine is never awaited, which is the wrapper's fault; so a plain one is wrapped here.
    @tool
    @twice
    def count(number: int) -> int:
        calls.append(number)
        return len(calls)

    assert note.meta.input_schema["required"] == ["number"]
    assert await count.execute('{"number": 7}') == "2"


async def test_the_context_is_injected_and_not_shown() -> None:
    @tool
    async def who(name: str, context: ToolContext, other: ToolContext | None = None) -> str:
        assert other is context
        return f"{name} {context.call_id}"

    assert who.meta.input_schema["required"] == ["name"]
    assert list(who.meta.input_schema["properties"]) == ["name"]  # type: ignore[arg-type]
    assert await who.execute('{"name": "a"}', ToolContext("call_1")) == "a call_1"


@pytest.mark.parametrize("name", ["", "a b", "a.b", "käse", "a" * 65, "a\n"], ids=lambda name: repr(name)[:10])
def test_a_name_that_providers_refuse_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be the name of a tool"):
        tool(name=name)(add.__wrapped__)  # type: ignore[attr-defined]


def test_a_lambda_is_refused() -> None:
    nothing: Callable[[], int] = lambda: 1  # noqa: E731
    with pytest.raises(ConfigurationError, match="write it as a function with def"):
        tool(name="one")(nothing)


class Caller:
    def __call__(self, x: int) -> int:
        return x


def untyped(where): ...  # type: ignore[no-untyped-def]
def many(*args: int) -> None: ...
def named(**kwargs: int) -> None: ...
def pay(amount: Decimal) -> None: ...
def go(straße: str) -> None: ...
def make(cls: type) -> None: ...


# What cannot be a tool, and why.
REFUSED: list[tuple[Any, str]] = [
    (untyped, "tool 'untyped', parameter 'where': it has no type"),
    (many, r"tool 'many', parameter 'args'.*name each"),
    (named, r"tool 'named', parameter 'kwargs'.*name each"),
    (pay, r"'amount'.*not under TYPE_CHECKING"),
    (go, r"tool 'go', parameter 'straße'.*rename it"),
    (Caller(), "is not a function"),
    (Caller, "is not a function"),
    (functools.partial(add, 1), "is not a function"),
    (add, "is a tool already"),
    (cast("Any", classmethod)(make), "a class method cannot be a tool"),
]


@pytest.mark.parametrize(("thing", "message"), REFUSED)
def test_what_cannot_be_a_tool_is_refused(thing: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tool(thing)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"timeout": 0}, "timeout=0"),
        ({"timeout": -1.0}, r"timeout=-1\.0"),
        ({"timeout": "5"}, "timeout='5': give a number above 0"),
        ({"timeout": float("inf")}, "timeout=inf: leave it out"),
        ({"retries": "2", "effect": "pure"}, "retries='2': give a whole number"),
        ({"effect": "read"}, "effect='read'"),
        ({"retries": 1}, "only a tool that may be repeated"),
        ({"retries": -1, "effect": "pure"}, "retries=-1"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tool(**settings)


def test_a_tool_is_shown_with_its_origin() -> None:
    assert repr(add).startswith("<tool 'add' ")


async def test_a_coroutine_function_is_called_on_the_loop() -> None:
    @tool
    async def where() -> bool:
        return asyncio.get_running_loop() is home

    home = asyncio.get_running_loop()
    assert await where.execute("") == "true"
