"""An answer as a value of a type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

import pytest
from msgspec import Struct

from rxworker import Limits, Run, RunResult, Worker, on_turn_end
from rxworker.errors import ConfigurationError, LimitExceededError
from rxworker.events import HookVerdict
from rxworker.hooks import TurnEndContext
from rxworker.messages import Json, StopKind
from rxworker.providers import Options
from rxworker.testing import Reply, ScriptedModel, say
from rxworker.turn.result import Output


class Forecast(Struct):
    city: str
    days: list[int]


@dataclass
class Point:
    x: int
    y: int = 0


GOOD = '{"city": "Kyoto", "days": [17, 19]}'


async def test_the_result_holds_the_value() -> None:
    run = Worker(ScriptedModel([GOOD])).run("weather?", output=Forecast)
    assert_type(run, Run[Forecast])
    result = await run
    assert_type(result, RunResult[Forecast])
    assert result.output == Forecast("Kyoto", [17, 19])


async def test_the_request_has_the_schema() -> None:
    model = ScriptedModel([GOOD, "plain"])
    worker = Worker(model, options=Options(temperature=0.5))
    await worker.run("weather?", output=Forecast)
    await worker.run("and in words?")
    first, second = (request.options for request in model.requests)
    assert first.output is not None
    assert first.output.name == "Forecast"
    assert first.output.schema["required"] == ["city", "days"]
    assert (first.temperature, second.output) == (0.5, None)


@pytest.mark.parametrize(
    ("answer", "path"),
    [
        ('{"city": "Kyoto", "days": [17, "x"]}', "$.days"),
        ('{"city": "Kyoto"}', "days"),
        ("It is warm.", "malformed"),
        ("", "malformed"),
    ],
)
async def test_an_answer_that_does_not_fit_is_sent_back_with_what_is_wrong(answer: str, path: str) -> None:
    model = ScriptedModel([answer, GOOD])
    run = Worker(model).run("weather?", output=Forecast)
    result = await run
    assert result.output == Forecast("Kyoto", [17, 19])
    complaint = model.requests[1].conversation.messages[-1]
    assert complaint.role == "user"
    assert path in complaint.text
    verdicts = [r.event for r in [x async for x in run] if isinstance(r.event, HookVerdict)]
    assert [(v.hook, v.verdict) for v in verdicts] == [("output", "ContinueWithMessages")]


async def test_a_model_that_never_answers_to_the_point_reaches_the_limit() -> None:
    worker = Worker(ScriptedModel(lambda _: "no"), limits=Limits(max_continuations=2))
    with pytest.raises(LimitExceededError, match="max_continuations=2"):
        await worker.run("weather?", output=Forecast)


async def test_a_refusal_is_an_answer_without_a_value() -> None:
    refusal = say("I will not.", stop=StopKind.REFUSAL)
    result = await Worker(ScriptedModel([refusal])).run("weather?", output=Forecast)
    assert result.output is None


async def test_hooks_see_only_answers_that_fit() -> None:
    seen: list[str] = []

    @on_turn_end
    def look(context: TurnEndContext) -> None:
        seen.append(context.text)

    await Worker(ScriptedModel(["no", GOOD]), hooks=[look]).run("weather?", output=Forecast)
    assert seen == [GOOD]


def test_run_sync_knows_the_type_too() -> None:
    result = Worker(ScriptedModel(['{"x": 1}'])).run_sync("where?", output=Point)
    assert_type(result, RunResult[Point])
    assert result.output == Point(1, 0)


async def test_a_type_that_is_not_an_object_is_put_into_one() -> None:
    model = ScriptedModel(['{"value": [1, 2]}'])
    result = await Worker(model).run("numbers?", output=list[int])
    assert result.output == [1, 2]
    form = model.requests[0].options.output
    assert form is not None
    assert form.schema["required"] == ["value"]


async def test_the_value_so_far_can_be_watched() -> None:
    run = Worker(ScriptedModel([say("no"), say(GOOD, chunk=7)])).run("weather?", output=Forecast)
    seen: list[str] = []

    def note(value: Json) -> None:
        seen.append(str(value))

    run.partial_output.subscribe(note)
    await run
    assert seen[0] == "{}"
    assert seen[-1] == "{'city': 'Kyoto', 'days': [17, 19]}"


def test_a_fence_around_the_json_is_not_a_fault() -> None:
    assert Output(Forecast).decode(f"```json\n{GOOD}\n```") == Forecast("Kyoto", [17, 19])


async def test_a_type_without_a_schema_is_refused_before_any_request() -> None:
    class Opaque:
        pass

    model = ScriptedModel([])
    with pytest.raises(ConfigurationError, match="cannot be the output of a run"):
        Worker(model).run("?", output=Opaque)
    assert model.requests == []


def test_a_reply_may_be_a_value_without_text() -> None:
    assert Output(Forecast).complaint(Reply().text) is not None
