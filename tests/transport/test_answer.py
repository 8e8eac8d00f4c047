"""`Answer`: what it emits of the bytes that come, when it gives up waiting, and what is requested again."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from reactivex import Observable, abc
from reactivex.testing import ReactiveTest, Recorded, TestScheduler

from rxworker.errors import HttpStatusError, ProviderError, TransportError
from rxworker.events import Error, Ping, ResponseEvent, ResponseStatus, Status, TextDelta
from rxworker.events.meta import TRUNCATED
from rxworker.operators import retry_before_first
from rxworker.operators.kernel import Stage
from rxworker.transport import Retry, Timeouts
from rxworker.transport.answer import Answer

BUSY = Error("overloaded", "busy", retryable=True, kind="overloaded")
FAILED = Status(ResponseStatus.FAILED)
CUT = Error(TRUNCATED, "cut", retryable=True, kind=TRUNCATED)
TRIES = 3

Script = list[Recorded[bytes]]


class Lines:
    """A decoder of texts.

    ``.`` is a comment, ``p`` a ping, ``!`` an error of the provider's, ``?`` what it cannot read.
    """

    def __init__(self) -> None:
        self._over = False

    def feed(self, data: bytes, /) -> Sequence[ResponseEvent]:
        if data == b"?":
            raise ValueError("a bug")
        self._over = self._over or data == b"!"
        special: dict[bytes, list[ResponseEvent]] = {b"!": [BUSY, FAILED], b".": [], b"p": [Ping()]}
        return special.get(data, [TextDelta(0, str(data))])

    def finish(self) -> Sequence[ResponseEvent]:
        return [] if self._over else [CUT, FAILED]


class Steady(Retry, frozen=True):
    """Leaves nothing to chance."""

    def delay(self, error: Exception, attempt: int, chance: Callable[[], float] = float) -> float | None:
        return super().delay(error, attempt, chance)


RETRY = Steady(retries=TRIES - 1, first=40.0, maximum=40.0)


def explain(error: Exception) -> Exception:
    if isinstance(error, HttpStatusError):
        return ProviderError("explained", retryable=True)
    return error


def in_turn(scheduler: TestScheduler, scripts: Sequence[Script]) -> Observable[bytes]:
    """Each subscription is answered by the next of them."""
    remaining = [scheduler.create_cold_observable(script) for script in scripts]

    def subscribe(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return remaining.pop(0).subscribe(observer, scheduler=scheduler)

    return Observable(subscribe)


def answered(
    source: Observable[bytes], times: Timeouts, clock: TestScheduler, retry: Retry = RETRY
) -> Observable[ResponseEvent]:
    """As a client has it."""

    def attempt(observer: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        answer = Answer(source, Lines, explain, observer, times, retry, clock)
        answer.send()
        return answer

    return Stage(attempt).pipe(retry_before_first(retry.delay, clock))


def script(seed: random.Random) -> Script:
    """What one attempt brings: a few chunks with short and long pauses, and an end or none."""
    time, played = 0, Script()
    for _ in range(seed.randrange(4)):
        time += seed.choice([13, 43, 403])
        played.append(ReactiveTest.on_next(time, seed.choice([b"a", b"b", b"c", b"d", b"!", b"?"])))
    time += 13
    ends = [
        ReactiveTest.on_completed(time),
        ReactiveTest.on_error(time, TransportError("the cable", retryable=True)),
        ReactiveTest.on_error(time, TransportError("no such host")),
        ReactiveTest.on_error(time, HttpStatusError("busy", status=503, headers={}, body=b"", url="http://x")),
    ]
    return [*played, *seed.choice([[], *([end] for end in ends)])]


def heard(scripts: Sequence[Script], times: Timeouts, until: float = 5000.0) -> tuple[list[str], list[float]]:
    """What an observer is told, and when."""
    clock = TestScheduler()

    def create() -> Observable[ResponseEvent]:
        return answered(in_turn(clock, scripts), times, clock)

    told = clock.start(create, disposed=until).messages
    return [str(one.value) for one in told], [one.time for one in told]


LIMITS = [Timeouts(80.0, 80.0), Timeouts(160.0, 80.0), Timeouts(80.0, None), Timeouts(None, 80.0)]
CABLE = ReactiveTest.on_error(20, TransportError("the cable", retryable=True))
WHERE = ReactiveTest.on_error(20, TransportError("no such host"))
BUSY_503 = ReactiveTest.on_error(20, HttpStatusError("busy", status=503, headers={}, body=b"", url="http://x"))


def sent(*data: bytes, end: Recorded[bytes] | None = None) -> Script:
    """Reads at 10, 11 and so on, and an end."""
    return [*(ReactiveTest.on_next(10 + at, each) for at, each in enumerate(data)), *([end] if end else [])]


OUTCOMES: dict[str, tuple[list[Script], list[str]]] = {
    "nothing comes, three times": ([[], [], []], ["OnError(nothing came within 80 seconds)"]),
    "nothing comes, and then a text": (
        [[], sent(b"a"), []],
        ["a", "timeout nothing came for 80 seconds", "failed", "OnError(nothing came for 80 seconds)"],
    ),
    "a text, and the connection breaks": (
        [sent(b"a", end=CABLE), sent(b"b")],
        ["a", "connection the cable", "failed", "OnError(the cable)"],
    ),
    "the connection breaks before": (
        [sent(end=CABLE), sent(b"a", b"!")],
        ["a", "overloaded busy", "failed", "OnError(busy)"],
    ),
    "an error that another request does not help": ([sent(end=WHERE), sent(b"a")], ["OnError(no such host)"]),
    "an error of the provider, three times": ([sent(b"!")] * 3, ["OnError(busy)"]),
    "an answer that is not a stream": ([sent(end=BUSY_503)] * 3, ["OnError(explained)"]),
    "a text, and a fault of the decoder": ([sent(b"a", b"?"), []], ["a", "unknown a bug", "failed", "OnError(a bug)"]),
    "a response that ends too early": (
        [sent(b"a", end=ReactiveTest.on_completed(20))],
        ["a", "truncated cut", "failed", "OnError(cut)"],
    ),
}


def as_word(message: str) -> str:
    """An event or an error as the table above has it."""
    if found := re.search(r"TextDelta\(index=0, text=\"b'(.)'\"", message):
        return found[1]
    if found := re.search(r"Error\(code='(\w+)', message='([^']*)'", message):
        return f"{found[1]} {found[2]}"
    return "failed" if "FAILED" in message else message


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_response_has_this_result(name: str) -> None:
    scripts, expected = OUTCOMES[name]
    told, _ = heard(scripts, Timeouts(80.0, 80.0))
    assert [*map(as_word, told)] == expected


@pytest.mark.parametrize("number", range(120))
def test_it_ends_once_and_is_never_silent_for_longer_than_allowed(number: int) -> None:
    seed = random.Random(number)
    scripts, times = [script(seed) for _ in range(TRIES)], seed.choice(LIMITS)
    told, at = heard(scripts, times)
    ends = [place for place, each in enumerate(told) if each.startswith(("OnError", "OnCompleted"))]
    events = [place for place, each in enumerate(told) if each.startswith("OnNext")]
    assert ends in ([], [len(told) - 1])
    if times.idle is not None:  # of what has begun: it is not requested again
        assert ends or not events
        assert all(later - sooner <= times.idle * 1.25 for sooner, later in pairwise(at))
    if times.first is not None and not events:
        # Each attempt ends after the time at the latest, and the next one comes after the pause.
        assert at[-1] - 200.0 <= TRIES * (max(times.first, times.idle or 0.0) * 1.25 + 430.0 + RETRY.maximum)


@pytest.mark.parametrize("number", range(20))
def test_it_is_silent_once_it_was_left(number: int) -> None:
    seed = random.Random(number)
    scripts, times = [script(seed) for _ in range(TRIES)], seed.choice(LIMITS)
    _, at = heard(scripts, times, 203.0 + 10 * number)
    assert all(time <= 203.0 + 10 * number for time in at)


def end_of(sends: dict[int, bytes], times: Timeouts) -> tuple[float, str]:
    """When a response ends that sends these and then stays silent, and how."""
    played = [ReactiveTest.on_next(time, data) for time, data in sends.items()]
    told, at = heard([played, [], []], times, 9000.0)
    return at[-1] - 200.0, told[-1]  # the test scheduler subscribes at 200


EACH_30 = range(10, 8000, 30)


@pytest.mark.parametrize("sign", [b".", b"p"])
@pytest.mark.parametrize(
    ("times", "begins", "ends"),
    [
        (Timeouts(None, 100.0, 5.0), b"a", 500.0),
        (Timeouts(None, 100.0, 1.0), b"a", 100.0),
        (Timeouts(None, 100.0, 2.5), b"a", 250.0),
    ],
)
def test_signs_of_life_make_a_pause_longer_but_not_endless(
    sign: bytes, times: Timeouts, begins: bytes, ends: float
) -> None:
    sends: dict[int, bytes] = {5: begins} | dict.fromkeys(EACH_30, sign)
    at, told = end_of(sends, times)
    assert 5 + ends <= at <= 5 + ends + 100 / 4
    assert "but keep-alives" in told or times.keep_alive == 1.0


def test_silence_behind_signs_of_life_is_no_longer_than_any_other() -> None:
    at, told = end_of({5: b"a", 90: b"."}, Timeouts(None, 100.0))
    assert 190 <= at <= 190 + 100 / 4
    assert "nothing came for 100 seconds" in told


def test_an_event_begins_a_new_pause() -> None:
    sends: dict[int, bytes] = {5: b"a", 450: b"b"} | dict.fromkeys(EACH_30, b".")
    at, _ = end_of(sends, Timeouts(None, 100.0))
    assert 950 <= at <= 950 + 100 / 4


def test_signs_of_life_may_hold_a_response_open_for_ever_if_so_wanted() -> None:
    sends: dict[int, bytes] = {5: b"a"} | dict.fromkeys(EACH_30, b".")
    at, _ = end_of(sends, Timeouts(None, 100.0, None))
    assert at > EACH_30[-1] + 90


def test_signs_of_life_make_the_wait_for_the_first_event_longer_but_not_endless() -> None:
    once = Steady(retries=0)
    clock = TestScheduler()
    source = clock.create_cold_observable([ReactiveTest.on_next(t, b".") for t in EACH_30])
    times = Timeouts(100.0, None)

    def create() -> Observable[ResponseEvent]:
        return answered(source, times, clock, once)

    (end,) = clock.start(create, disposed=9000.0).messages
    assert 700 <= end.time <= 725
    assert "nothing came within 500 seconds but keep-alives" in str(end.value)


def test_a_time_of_nothing_does_not_look_for_ever() -> None:
    clock = TestScheduler()

    def create() -> Observable[ResponseEvent]:
        return answered(in_turn(clock, [Script()] * TRIES), Timeouts(1.0, 0.0), clock)

    (told,) = clock.start(create).messages
    assert "nothing came within 1 seconds" in str(told.value)


def test_without_a_clock_it_sends_one_request_and_waits() -> None:
    clock = TestScheduler()
    error = TransportError("the cable", retryable=True)

    def subscribe(observer: abc.ObserverBase[ResponseEvent], _: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        source = in_turn(clock, [[ReactiveTest.on_error(300, error)]])
        answer = Answer(source, Lines, explain, observer, Timeouts(), RETRY, None)
        answer.send()
        return answer

    (told,) = clock.start(lambda: Stage(subscribe)).messages
    assert told.time == 500.0
