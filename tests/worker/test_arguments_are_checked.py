"""Whatever a program passes to a public constructor is checked there, with what to write instead.

Not when a run has begun.

A new constructor, or a new argument of one, is a row.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import reactivex
from msgspec import Struct
from reactivex import operators as ops
from reactivex.scheduler import HistoricalScheduler

from rxworker import Limits, Worker, before_tool_call, on_abort, operators
from rxworker.errors import ConfigurationError
from rxworker.events import Event
from rxworker.hub import Coalesce, DropOldest, Latest, Reliable
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.messages import Prices
from rxworker.operators import (
    coalesce,
    combine_gauges,
    decode,
    fold_sliding,
    group_blocks,
    hold_back,
    join_runs,
    lines,
    map_async,
    mask,
    partial_values,
    quorum,
    rate,
    retry_before_first,
    sentences,
    session_windows,
    sliding,
    text_deltas,
    text_so_far,
    time_out,
)
from rxworker.operators.kernel import Source
from rxworker.providers import Anthropic, Options
from rxworker.testing import ScriptedModel
from rxworker.timeline import Timeline
from rxworker.transport import Client, Retry, Timeouts, fallback, race
from rxworker.worker import Budget

NAN = float("nan")
CLOCK = HistoricalScheduler()


def model() -> ScriptedModel:
    return ScriptedModel(["Hello."])


def worker(**arguments: Any) -> Worker:
    return Worker(model(), **arguments)


class Nameless:
    def stream(self, request: object) -> reactivex.Observable[Event]:
        raise AssertionError("the run began")


class Changing(Struct):
    count: int = 0


class Row(Struct, frozen=True):
    count: int = 0


def shout() -> Callable[[Any], Any]:
    return ops.map(str)


def add(one: float, other: float) -> float:
    return one + other


def of(make: Callable[..., object], **arguments: object) -> Callable[[], object]:
    return lambda: make(**arguments)


def with_operator(operator: object) -> Callable[[], object]:
    return lambda: worker(operators=[operator])


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    # operators without parentheses
    "text_deltas": (with_operator(text_deltas), r"write text_deltas\(\.\.\.\), with parentheses"),
    "sentences": (with_operator(sentences), r"write sentences\(\.\.\.\), with parentheses"),
    "ops.map": (with_operator(ops.map), r"write map\(\.\.\.\), with parentheses"),
    "a factory of one's own": (with_operator(shout), r"write shout\(\.\.\.\), with parentheses"),
    "a class": (with_operator(Timeline), r"write Timeline\(\.\.\.\)"),
    "no operator": (with_operator(3), "3 is not an operator"),
    "in pipe": (lambda: Source[Event]().pipe(text_deltas), "with parentheses"),  # pyright: ignore
    "in pipe, without arguments": (lambda: Source[Event]().pipe(lines), "with parentheses"),  # pyright: ignore
    "in pipe of an observable": (lambda: reactivex.of(1).pipe(text_deltas), "with parentheses"),  # pyright: ignore
    "as a gauge": (lambda: combine_gauges(Row(), count=ops.count), "with parentheses"),  # pyright: ignore
    "a gate with a number for a text": (lambda: hold_back(bool, replacement=7), r'replacement="\*\*\*"'),  # pyright: ignore
    "a gate that looks far ahead": (lambda: hold_back(bool, ahead=300), "at most half the window, which is 400"),
    "a number in place of a hook's name": (lambda: worker(hooks=[before_tool_call(print, before=7)]), "names of"),  # pyright: ignore
    # models
    "a model without a name": (lambda: Worker(Nameless()), "has stream.., but no name"),  # pyright: ignore
    "a name in place of a model": (lambda: Worker("claude"), "neither a provider"),  # pyright: ignore
    "a class in place of a model": (lambda: Worker(Anthropic), "is a class"),  # pyright: ignore
    "fallback": (lambda: fallback("a", "b"), "'a' is neither a provider"),  # pyright: ignore
    "fallback without a name": (lambda: fallback(model(), Nameless()), "but no name"),  # pyright: ignore
    "race": (lambda: race(model(), None), "None is neither a provider"),  # pyright: ignore
    "a client of a name": (lambda: Client("claude"), "neither a provider"),  # pyright: ignore
    "a client's retry": (lambda: Client(Anthropic("m", api_key="k"), retry=3), "retry=Retry"),  # pyright: ignore
    "a client's timeouts": (lambda: Client(Anthropic("m", api_key="k"), timeouts=3), "timeouts=Timeouts"),  # pyright: ignore
    "a client's frame": (lambda: Client(Anthropic("m", api_key="k"), max_frame=0), "from 1 up"),
    "one reply": (lambda: ScriptedModel("Hello"), "give a list"),  # pyright: ignore
    "a negative delay": (lambda: ScriptedModel([], delay=-1), "from 0 up"),
    # settings
    "a name that is nearly one": (of(Options, max_token=5), "'max_token'; did you mean 'max_tokens'"),
    "a name that is none": (of(Options, foo=5), "it has: max_tokens, temperature"),
    "tokens below 1": (of(Options, max_tokens=0), "from 1 up"),
    "tokens as text": (of(Options, max_tokens="5"), "whole number"),
    "a hot temperature": (of(Options, temperature="hot"), "a number"),
    "a single stop sequence": (of(Options, stop_sequences="END"), "stop_sequences=.'END',."),
    "a stop sequence that is none": (of(Options, stop_sequences=(3,)), "is a int"),
    "a single cached part": (of(Options, cache="tools"), "cache="),
    "thinking": (of(Options, thinking=[]), "thinking=1024"),
    "parallel": (of(Options, parallel_tool_calls="no"), "parallel_tool_calls=False"),
    "extra": (of(Options, extra=3), "extra="),
    "headers": (of(Options, headers="X: y"), "headers="),
    "a time-out below 0": (of(Timeouts, first=-1), "Timeouts.first.=-1: give a number from 0 up, or None"),
    "a time-out that is not a number": (of(Timeouts, idle=NAN), "from 0 up"),
    "a sign of life": (of(Timeouts, keep_alive="x"), "from 0 up"),
    "another time-out": (of(Timeouts, firs=3), "did you mean 'first'"),
    "retries": (of(Retry, retries=-1), "whole number from 0 up"),
    "half a retry": (of(Retry, retries=1.5), "whole number"),
    "a wait": (of(Retry, first=-1), "from 0 up"),
    "a price": (of(Prices, input=-1, output=1), "from 0 up"),
    "a price as text": (of(Prices, input=1, output="1"), "a number"),
    "a price of a cache": (of(Prices, input=1, output=1, cache_read=-1), "or None"),
    "a currency": (of(Prices, input=1, output=1, currency=3), "currency='EUR'"),
    "a limit": (of(Limits, max_turns=-1), "from 0 up, or None"),
    "a limit as text": (of(Limits, max_turns="3"), "from 0 up, or None"),
    "true as a limit": (of(Limits, max_turns=True), "from 0 up, or None"),
    "half a turn": (of(Limits, max_turns=1.5), "whole number"),
    "a limit that is not a number": (of(Limits, max_seconds=NAN), "from 0 up"),
    "a number as prices": (of(Limits, prices=3), "prices=Prices"),
    "prices as a limit": (of(Limits, max_turns=Prices(input=1, output=1)), "whole number"),
    "another limit": (of(Limits, max_turn=3), "did you mean 'max_turns'"),
    "a budget": (of(Budget, max_tokens=-1), "from 0 up"),
    "a budget as text": (of(Budget, max_tokens="x"), "whole number"),
    "a budget's prices": (of(Budget, max_cost=1, prices=3), "prices=Prices"),
    "a pace": (of(Coalesce, every=True), "give a number above 0"),
    "no pace": (of(Coalesce, every=0), "give a number above 0"),
    "another pace": (of(Coalesce, evry=1), "did you mean 'every'"),
    "a reliable limit": (of(Reliable, limit=1.5), "give a whole number from 1 up"),
    "a policy": (of(Reliable, when_full="drop"), "'wait' or 'detach'"),
    "a drop limit": (of(DropOldest, limit=0), "give a whole number from 1 up"),
    "latest of something": (of(Latest, limit=1), "no setting 'limit'"),
    # logs
    "a lease": (of(MemoryLog, lease=-1), "from 0 up"),
    "an owner": (of(MemoryLog, owner=3), "owner="),
    "a codec": (of(MemoryLog, codec=3), "encode"),
    "a file": (lambda: SQLiteLog(3), "path"),  # pyright: ignore
    # workers
    "a folder": (of(worker, workspace="/nope"), "is not a folder"),
    "a system text": (of(worker, system=5), "system='Be brief.'"),
    "one tool": (of(worker, tools=add), r"tools=\[get_weather\]"),
    "one hook": (of(worker, hooks=on_abort(lambda _: None)), r"hooks=\[permit\]"),
    "a text as a number of tools": (of(worker, parallel="8"), "give a whole number from 1 up"),
    "no tools at once": (of(worker, parallel=0), "parallel=0: give a whole number from 1 up"),
    "a text as a conversation": (of(worker, conversation=["hi"]), "conversation=Conversation"),
    "a number as a folder": (of(worker, workspace=3), "workspace="),
    "a worker's name": (of(worker, name=3), "name="),
    "a label": (of(worker, labels={"tenant": 3}), "labels="),
    "true as a number of tools": (of(worker, parallel=True), "parallel"),
    "an error formatter": (of(worker, error_formatter=3), "error_formatter"),
    "0 as response_retry": (of(worker, response_retry=0), "retry=Retry"),
    "0 as limits": (of(worker, limits=0), "limits=Limits"),
    "a dict as options": (of(worker, options={}), "options=Options"),
    "0 as a log": (of(worker, log=0), "log=SQLiteLog"),
    "a list as conversation": (of(worker, conversation=[]), "conversation=Conversation"),
    # operators
    "a board that changes": (lambda: combine_gauges(Changing(), count=ops.count()), "frozen=True"),
    "a board that is a class": (lambda: combine_gauges(Row, count=ops.count()), "frozen Struct"),  # pyright: ignore
    "a board that is not a Struct": (lambda: combine_gauges({}, count=ops.count()), "frozen Struct"),  # pyright: ignore
    "a window of 0": (lambda: sliding(0, CLOCK), "above 0"),
    "a window": (lambda: sliding(NAN, CLOCK), "above 0"),
    "a window without a clock": (lambda: rate(3, 3), "needs a scheduler"),  # pyright: ignore
    "a window as text": (lambda: fold_sliding(add, 0.0, "3", CLOCK), "above 0"),  # pyright: ignore
    "a window without a fold": (lambda: fold_sliding(3, 0.0, 3, CLOCK), "function of two"),  # pyright: ignore
    "arguments turned round": (lambda: coalesce(CLOCK, 1.0), "coalesce.seconds."),  # pyright: ignore
    "a time before now": (lambda: coalesce(-1, CLOCK), "from 0 up"),
    "a first item": (lambda: time_out(-1, None, CLOCK), "from 0 up"),
    "a retry": (lambda: retry_before_first(3, CLOCK), "takes a function"),  # pyright: ignore
    "work at once": (lambda: map_async(reactivex.of, 1.5), "whole number"),  # pyright: ignore
    "no work at a time": (lambda: map_async(reactivex.of, 0), "from 1 up"),
    "no work": (lambda: map_async(3, 1), "give a coroutine function"),  # pyright: ignore
    "a key of runs": (lambda: join_runs("tenant"), "a function of a run"),  # pyright: ignore
    "a quorum of none": (lambda: quorum(0), "from 1 up"),
    "a gap": (lambda: session_windows(0, CLOCK), "above 0"),
    "a group of none": (lambda: session_windows(1, CLOCK, at_most=0), "from 1 up"),
    "a pause in a sentence": (lambda: sentences(0, 0, CLOCK), "above 0"),
    "a part of a letter": (lambda: sentences(at_least=1.5), "whole number"),  # pyright: ignore
    "a choice of a text": (lambda: text_so_far(-1), "from 0 up"),
    "a decoder": (lambda: decode(3), "makes a decoder"),  # pyright: ignore
    "a follower": (lambda: group_blocks(3), "function of a block"),  # pyright: ignore
    "a check": (lambda: hold_back("is_clean"), "give a function"),  # pyright: ignore
    "a short window of a check": (lambda: hold_back(bool, window=1), "from 2 up"),
    "a window of a check": (lambda: hold_back(bool, window=2.5), "whole number"),  # pyright: ignore
    "a limit of a mask": (lambda: mask("a", limit=0), "from 1 up"),
    "a choice": (lambda: text_deltas("x"), "whole number"),  # pyright: ignore
    "a choice of values": (lambda: partial_values(choice=-1), "from 0 up"),
    "a type of values": (lambda: partial_values(1), "give a type"),  # pyright: ignore
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_right_is_refused_where_it_is_written(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_nothing_of_a_setting_s_value_but_its_start_is_in_the_message() -> None:
    with pytest.raises(ConfigurationError) as raised:
        Options(headers="Authorization: secret")  # pyright: ignore
    assert "secret" not in str(raised.value)


def test_no_public_function_of_the_operators_can_stand_for_its_result() -> None:
    """Each that returns an operator is refused without its parentheses."""
    for name in operators.__all__:
        function = getattr(operators, name)
        if name[0].islower() and name not in ("connect", "stage"):
            with pytest.raises(ConfigurationError, match=f"write {name}"):
                worker(operators=[function])


def test_what_is_right_is_taken(tmp_path: Path) -> None:
    def mine(source: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
        return source

    class Applied:
        def __call__(self, source: reactivex.Observable[Any]) -> reactivex.Observable[Any]:
            return source

    once = lambda source, times=1: source  # noqa: E731  # pyright: ignore
    worker(
        operators=[mine, Applied(), once, Timeline(), lines(), ops.map(str)],
        workspace=tmp_path,
        options=Options(max_tokens=1, stop_sequences=["END"], thinking="low"),  # pyright: ignore
        limits=Limits(max_turns=None, max_seconds=0.5, max_tool_calls=0),
        response_retry=Retry(retries=0),
    )
    fallback(model(), Anthropic("claude-sonnet-4-6", api_key="k"))
    Timeouts(None, None, None)
    Prices(input=0, output=1)


async def waiting(source: object) -> object:
    return source


def test_a_coroutine_function_is_not_an_operator() -> None:
    with pytest.raises(ConfigurationError, match=r"waiting is not an operator.*: write def, without async"):
        worker(operators=[waiting])


RETURNED: dict[str, Callable[[Any], Any]] = {
    "a NoneType": lambda source: None,
    "a list": lambda source: [source],
    "a coroutine": lambda source: waiting(source),
    "a function": lambda source: text_deltas,
}


@pytest.mark.parametrize(("name", "operator"), RETURNED.items(), ids=RETURNED.keys())
async def test_an_operator_that_returns_no_observable_is_named(name: str, operator: Callable[[Any], Any]) -> None:
    """Only when it is applied is it known: a ``return`` is easily forgotten."""
    for operators_ in ([operator], [operator, ops.filter(bool)]):
        with pytest.raises(ConfigurationError, match=rf"the operator .* returned {name}, which is not"):
            await worker(operators=operators_).run("Go.")
