"""The type checker is the judge here; at run time there is little to see."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any, assert_type

from rxworker import tool
from rxworker.tools import FunctionTool, Progress, Tool, Toolbox


@tool
def add(a: int, b: int = 1) -> int:
    return a + b


@tool(name="look-up", effect="pure")
async def look_up(city: str) -> dict[str, float]:
    return {city: 1.0}


@tool
async def copy(files: list[str]) -> AsyncIterator[Progress[int] | str]:
    for number, _ in enumerate(files):
        yield Progress(number)
    yield "copied"


class App:
    @tool
    async def get_user(self, user_id: str, *, full: bool = False) -> str:
        return f"{user_id}{full}"

    @tool(timeout=1)
    def count(self) -> int:
        return 1

    @tool
    @staticmethod
    def shout(text: str) -> str:
        return text.upper()


async def test_a_tool_keeps_the_types_of_its_function() -> None:
    assert_type(add(1, 2), int)
    assert_type(await look_up("Oslo"), dict[str, float])
    assert_type(copy(["a"]), AsyncIterator[Progress[int] | str])
    returns: Callable[[str], Coroutine[Any, Any, dict[str, float]]] = look_up
    assert returns is look_up


async def test_a_method_loses_its_self_on_an_object() -> None:
    app = App()
    assert_type(await app.get_user("7", full=True), str)
    assert_type(await App.get_user(app, "7"), str)
    assert_type(app.count(), int)
    assert_type(app.count, FunctionTool[[], int])
    assert_type(App.shout("a"), str)


def test_a_wrong_call_is_a_type_error() -> None:
    if TYPE_CHECKING:
        add("1")  # pyright: ignore[reportArgumentType]
        App().get_user(1)  # pyright: ignore[reportArgumentType, reportUnusedCoroutine]
        App().get_user("1", True)  # pyright: ignore[reportCallIssue, reportUnusedCoroutine]


def test_a_function_tool_is_a_tool() -> None:
    tools: list[Tool] = [add, look_up, App().get_user]
    assert len(Toolbox(tools)) == 3
