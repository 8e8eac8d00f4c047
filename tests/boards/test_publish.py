"""Published streams.

What each watcher receives and when, what is kept, and what one watcher cannot do to the others.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import reactivex
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from reactivex import Observable, abc
from reactivex import operators as ops
from reactivex.disposable import Disposable
from reactivex.subject import Subject
from reactivex.testing import TestScheduler

from rxworker.boards import Keep, Published, publish
from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.hub import Coalesce, Delivery, DropOldest, Item, Latest, Reliable
from rxworker.hub.delivery import held_for

DETACH = Reliable(limit=8, when_full="detach")
DELIVERIES: list[Delivery] = [DETACH, Reliable(limit=None), Coalesce(), Latest(), DropOldest(limit=3)]


def numbers(items: list[Item[int]]) -> list[int]:
    return [item.seq for item in items]


def stream_of(count: int, keep: Keep = "all", **options: Any) -> Published[int]:
    return publish("count", reactivex.from_iterable(range(1, count + 1)), keep=keep, **options)


# what is kept


@pytest.mark.parametrize(
    ("keep", "after", "received"),
    [
        ("last", 0, [5]),
        ("last", 3, [5]),
        ("last", 5, []),
        (3, 0, [3, 4, 5]),
        (3, 1, [3, 4, 5]),
        (3, 4, [5]),
        (9, 0, [1, 2, 3, 4, 5]),
        ("all", 0, [1, 2, 3, 4, 5]),
        ("all", 2, [3, 4, 5]),
        ("all", 7, []),
    ],
)
def test_a_late_watcher_receives_what_is_kept_after_its_number(keep: Keep, after: int, received: list[int]) -> None:
    stream = stream_of(5, keep)
    pushed: list[int] = []
    stream.watch(after=after).subscribe(lambda item: pushed.append(item.seq))
    assert [item.seq for item in stream.watch(after=after)] == pushed == received


@pytest.mark.parametrize("keep", ["last", 7])
async def test_a_stream_holds_no_more_than_it_keeps_when_its_watchers_have_read(keep: Keep) -> None:
    source = Subject[int]()
    stream = publish("count", source, keep=keep)
    seen: list[int] = []
    stream.subscribe(seen.append)
    kept = 1 if keep == "last" else 7
    for n in range(300):
        source.on_next(n)
        await asyncio.sleep(0)
        assert stream.hub.history.held <= kept * 9 / 8 + 1
    assert seen == list(range(300))


@pytest.mark.parametrize("delivery", DELIVERIES, ids=str)
async def test_a_watcher_that_does_not_read_is_held_what_its_delivery_allows(delivery: Delivery) -> None:
    source = Subject[int]()
    stream = publish("count", source)
    batches = stream.watch(delivery).batches()
    source.on_next(0)
    assert numbers(await anext(batches)) == [1]
    for n in range(1, 5000):
        source.on_next(n)
    assert stream.hub.history.held <= held_for(delivery) * 9 / 8 + 1
    if delivery == DETACH:
        with pytest.raises(LocalProtocolError, match="4999 records behind"):
            await anext(batches)
        return
    received: list[int] = []
    while not received or received[-1] != 5000:
        received += numbers(await anext(batches))
    held = min(held_for(delivery), 4999)
    assert received[-int(held) :] == list(range(5001 - int(held), 5001))
    await batches.aclose()


@dataclass
class Reading:
    """A watcher of the property: what it may receive, and what it has received."""

    delivery: Delivery
    after: int
    start: int
    received: list[int]


@given(
    st.sampled_from(["last", 2, 5, "all"]),
    st.lists(
        st.one_of(
            st.integers(1, 6),  # push so many
            st.tuples(st.sampled_from(DELIVERIES), st.integers(0, 12)),  # attach
            st.just("turn"),
        ),
        max_size=30,
    ),
)
def test_each_watcher_receives_each_number_once_in_order_and_the_last(
    keep: Keep, steps: list[int | tuple[Delivery, int] | str]
) -> None:
    async def play() -> None:
        source = Subject[int]()
        stream = publish("count", source, keep=keep)
        readings: list[Reading] = []
        count = 0
        for step in steps:
            if isinstance(step, int):
                for _ in range(step):
                    count += 1
                    source.on_next(count)
            elif isinstance(step, tuple):
                delivery, after = step
                kept = {"last": 1, "all": count}.get(str(keep), keep)
                start = max(after, count - int(kept))
                reading = Reading(delivery, after, start, [])
                readings.append(reading)

                def note(item: Item[int], reading: Reading = reading) -> None:
                    assert item.value == item.seq
                    reading.received.append(item.seq)

                stream.watch(delivery, after=after).subscribe(note)
            else:
                await asyncio.sleep(0)
        source.on_completed()
        await asyncio.sleep(0)
        for reading in readings:
            expected = list(range(reading.start + 1, count + 1))
            assert reading.received == sorted(set(reading.received))
            assert set(reading.received) <= set(expected)
            assert reading.received[-1:] == expected[-1:]
            # A pushed watcher is never behind by more than a turn, whatever is pushed in it.
            if isinstance(reading.delivery, Reliable | Coalesce):
                assert reading.received == expected

    asyncio.run(play())


# one subscription


async def test_the_observable_is_subscribed_to_once_and_at_once() -> None:
    subscribed: list[int] = []

    def subscribe(observer: abc.ObserverBase[int], _: object) -> abc.DisposableBase:
        subscribed.append(1)
        observer.on_next(7)
        return Disposable()

    stream = publish("count", Observable[int](subscribe))
    assert subscribed == [1]
    first, second = [await anext(aiter(stream)) for _ in range(2)]
    assert (first, second, subscribed) == (7, 7, [1])


def test_without_a_loop_the_observable_is_subscribed_to_with_the_first_use() -> None:
    subscribed: list[int] = []
    source = reactivex.defer(lambda _: (subscribed.append(1), reactivex.of(7))[1])
    stream = publish("count", source)
    doubled = stream.pipe(ops.map(lambda value: 2 * value))
    assert subscribed == []

    async def use() -> tuple[int, int | None]:
        latest = stream.latest
        return await doubled, latest and latest.value

    assert asyncio.run(use()) == (14, 7)
    assert subscribed == [1]


async def test_values_that_another_thread_pushes_arrive_on_the_event_loop() -> None:
    source, threads = Subject[int](), set[int]()
    stream = publish("count", source)
    stream.subscribe(lambda _: threads.add(threading.get_ident()))

    def push() -> None:
        for n in range(100):
            source.on_next(n)
        source.on_completed()

    reading = asyncio.ensure_future(_all(stream.watch(Reliable(limit=None)).batches()))
    await asyncio.sleep(0)
    await asyncio.to_thread(push)
    assert [item.value for item in await reading] == list(range(100))
    assert threads == {threading.get_ident()}


async def _all(batches: Any) -> list[Item[int]]:
    return [item async for batch in batches for item in batch]


async def test_operators_that_wait_have_the_time_of_the_event_loop() -> None:
    threads: list[int] = []
    source = reactivex.timer(0.001).pipe(ops.do_action(lambda _: threads.append(threading.get_ident())))
    stream = publish("tick", source)
    later = stream.pipe(ops.delay(0.001), ops.do_action(lambda _: threads.append(threading.get_ident())))
    assert await later == 0
    assert threads == [threading.get_ident()] * 2


def test_a_scheduler_gives_the_times_and_the_pace() -> None:
    clock = TestScheduler()
    stream = publish("tick", reactivex.interval(10.0), scheduler=clock, keep="all")
    seen: list[tuple[float, int]] = []
    stream.watch(Latest(every=25.0)).subscribe(lambda item: seen.append((item.time, item.value)))
    clock.advance_to(65)
    # Opened at 10, 35 and 60; each time only the newest before is delivered.
    assert seen == [(10.0, 0), (30.0, 2), (50.0, 4)]
    stream.close()


# one watcher and the others


async def test_a_watcher_that_raises_is_detached_alone() -> None:
    source = Subject[int]()
    stream = publish("count", source)
    seen: list[int] = []
    failed: list[Exception] = []

    def fail(value: int) -> None:
        if value == 2:
            raise OSError("gone")

    stream.subscribe(fail, failed.append)
    stream.subscribe(seen.append)
    for n in (1, 2, 3):
        source.on_next(n)
        await asyncio.sleep(0)
    assert seen == [1, 2, 3]
    assert [str(error) for error in failed] == ["gone"]
    assert stream.hub.watching == 1


async def test_an_error_of_the_observable_ends_the_stream_for_all_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Subject[int]()
    stream = publish("count", source)
    ends: list[str] = []
    for _ in range(2):
        stream.subscribe(lambda _: None, lambda error: ends.append(str(error)))
    source.on_next(5)
    with caplog.at_level(logging.WARNING, "rxworker.boards"):
        source.on_error(ValueError("the sum is not a number"))
    await asyncio.sleep(0)
    assert ends == ["the sum is not a number"] * 2
    assert "published stream count has failed" in caplog.text
    # One that comes later receives what is kept, and then the error.
    values = aiter(stream)
    assert await anext(values) == 5
    with pytest.raises(ValueError, match="not a number"):
        await anext(values)


async def test_an_operator_that_raises_late_ends_the_stream() -> None:
    def fail(_: int) -> int:
        raise ValueError("no")

    stream = publish("tick", reactivex.timer(0.001).pipe(ops.map(fail)))
    with pytest.raises(ValueError, match="no"):
        await stream


def test_subscribing_that_raises_ends_the_stream() -> None:
    def subscribe(_: abc.ObserverBase[int], __: object) -> abc.DisposableBase:
        raise ValueError("no")

    errors: list[Exception] = []
    publish("count", Observable[int](subscribe)).subscribe(print, errors.append)
    assert [str(error) for error in errors] == ["no"]


@pytest.mark.parametrize("end", [Subject[int].on_completed, None])
async def test_closing_and_completing_dispose_the_observable_and_complete_the_watchers(
    end: Callable[[Subject[int]], None] | None,
) -> None:
    source = Subject[int]()
    stream = publish("count", source)
    ended: list[bool] = []
    stream.subscribe(on_completed=lambda: ended.append(True))
    source.on_next(1)
    if end is None:
        stream.close()
        stream.close()
    else:
        end(source)
    await asyncio.sleep(0)
    assert ended == [True]
    assert source.observers == []
    source.on_next(2)
    assert [value async for value in stream] == [1]


# the schema, and what is refused


class Cost(Struct):
    tool: str
    dollars: float


@pytest.mark.parametrize(
    ("type_", "values", "expected"),
    [
        (int, [], {"type": "integer"}),
        (None, [], {}),
        (None, [1, 2], {"type": "integer"}),
        (None, [1, "2"], {}),
        (None, [1, "2", 3], {}),
        (None, [object()], {}),
        (dict[str, float], [], {"type": "object", "additionalProperties": {"type": "number"}}),
    ],
)
def test_the_schema_is_that_of_the_type_or_of_the_values(type_: Any, values: list[Any], expected: object) -> None:
    stream: Published[Any] = publish("x", reactivex.from_iterable(values), type=type_)
    stream.begin()
    assert stream.schema == expected


def test_the_schema_of_a_struct_has_its_fields() -> None:
    stream = publish("cost", reactivex.of(Cost("search", 0.5)))
    assert stream.latest is not None
    assert list(stream.schema["properties"]) == ["tool", "dollars"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": ""}, "1 to 80 characters"),
        ({"name": "a/b"}, "without a slash"),
        ({"name": ".."}, "characters"),
        ({"name": "x" * 81}, "characters"),
        ({"observable": [1]}, "give an observable"),
        ({"keep": 0}, "keep"),
        ({"keep": "some"}, "keep"),
        ({"user": ""}, "the name of a user"),
        ({"user": 5}, "the name of a user"),
        ({"delivery": Reliable()}, "cannot wait"),
        ({"type": complex}, "no JSON schema"),
    ],
)
def test_what_is_not_understood_is_refused(options: dict[str, Any], problem: str) -> None:
    given: dict[str, Any] = {"name": "x", "observable": reactivex.of(1), **options}
    with pytest.raises(ConfigurationError, match=problem):
        publish(given.pop("name"), given.pop("observable"), **given)


def test_a_delivery_that_would_make_the_observable_wait_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cannot wait"):
        stream_of(1).watch(Reliable(limit=5))
    with pytest.raises(ConfigurationError, match="is not a delivery"):
        stream_of(1).watch("latest")  # pyright: ignore[reportArgumentType] - the mistake


def of_acme(user: str) -> bool:
    return user.startswith("acme/")


def not_a_boolean(user: str) -> str:
    return user


@pytest.mark.parametrize(
    ("user", "who", "allowed"),
    [
        (None, "ann", False),
        ("ann", "ann", True),
        ("ann", "bob", False),
        (of_acme, "acme/ann", True),
        (of_acme, "ann", False),
        (not_a_boolean, "ann", False),
    ],
)
def test_who_may_watch(user: Any, who: str, allowed: bool) -> None:
    assert stream_of(1, user=user).allows(who) is allowed
