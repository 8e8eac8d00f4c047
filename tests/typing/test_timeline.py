"""Kinds fix the event type, handlers the scope type; pyright is the judge, pytest only runs it."""

# pyright: reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

from typing import assert_type

from rxworker.events import Ping, TextDelta, Usage
from rxworker.timeline import TEXT_BLOCK, USAGE, Handler, Kind, TextBlockEvent, Timeline, ToolUseBlockEvent


class Gather:
    """A handler whose scope is a list."""

    def scope(self) -> list[str]:
        return []

    def on_event(self, scope: list[str], event: TextBlockEvent, /) -> None:
        if isinstance(event, TextDelta):
            scope.append(event.text)


class Confused:
    """Makes one sort of scope and expects another."""

    def scope(self) -> list[str]:
        return []

    def on_event(self, scope: dict[str, int], event: TextBlockEvent, /) -> None:
        scope[str(event)] = 1


def on_usage(event: Usage) -> None:
    assert_type(event, Usage)


def on_tool(event: ToolUseBlockEvent) -> None:
    assert_type(event, ToolUseBlockEvent)


def test_a_kind_carries_its_event_type() -> None:
    assert_type(USAGE, Kind[Usage])
    assert_type(TEXT_BLOCK, Kind[TextBlockEvent])


def test_handlers_fit_where_their_events_come() -> None:
    timeline = Timeline()
    handler: Handler[TextBlockEvent, list[str]] = Gather()
    timeline.on_text_block(handler)
    timeline.on(TEXT_BLOCK, Gather())
    timeline.on_usage(on_usage)
    timeline.on(USAGE, on_usage)
    timeline.on_tool_use_block(on_tool)


def test_handlers_fit_nowhere_else() -> None:
    timeline = Timeline()
    timeline.on_ping(on_usage)  # pyright: ignore[reportArgumentType]
    timeline.on_usage(Gather())  # pyright: ignore[reportArgumentType]
    timeline.on(TEXT_BLOCK, on_usage)  # pyright: ignore[reportArgumentType]
    timeline.on_text_block(Confused())  # pyright: ignore[reportArgumentType]


def test_a_function_of_a_wider_type_fits_too() -> None:
    seen: list[object] = []
    timeline = Timeline()
    timeline.on_ping(seen.append)
    timeline.dispatch(Ping())
    assert seen == [Ping()]
