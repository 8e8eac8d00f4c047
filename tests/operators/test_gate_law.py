"""A secret never leaves the gate: at every boundary, of every protocol, in every kind of content.

The suite has some hundred secrets; the step of the laws has 100,000.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
import reactivex

from rxworker.events import (
    BlockStart,
    BlockStop,
    BlockType,
    Event,
    InputJsonDelta,
    InputValueDelta,
    PausedCall,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStop,
)
from rxworker.events.arguments import assemble_arguments
from rxworker.messages import Text, ToolCall, ToolResult
from rxworker.operators import hold_back
from rxworker.operators.gate import decoded, pieces_of
from rxworker.providers import PROVIDERS
from rxworker.testing import Reply
from rxworker.testing.reply import Call
from rxworker.testing.wire import WIRES
from rxworker.tools.calls import FinishedCall
from rxworker.tools.coroutines import Emitter
from rxworker.turn.gate import gate_calls
from tests.seen import through
from tests.whole import IS_WHOLE

SECRET = "hunter2"
SECRETS = 100_000 if IS_WHOLE else 560
KINDS = ["text", "thinking", "arguments", "results"]
PROTOCOLS = list(WIRES.values())


def is_clean(text: str) -> bool:
    return SECRET not in text


def escaped(text: str, random: Random) -> str:
    """The JSON string of a text, in which some characters are escapes."""
    chars = [f"\\u{ord(char):04{random.choice('xX')}}" if random.random() < 0.4 else char for char in text]
    return '"' + "".join(chars) + '"'


def planted(random: Random, half: int) -> tuple[str, str]:
    """What stands before the secret, and after it."""
    before, after = random.randrange(4 * half), random.randrange(3 * half)
    return "ab cd " * (before // 6) + "x" * (before % 6), "y" * (after % 6) + " ef gh" * (after // 6)


def response(random: Random, kind: str, provider: int, half: int) -> list[Any]:
    """The events of a response in the format of a provider, cut anywhere."""
    before, after = planted(random, half)
    text, chunk = before + SECRET + after, random.randint(1, 2 * half)
    if kind == "arguments":
        name = escaped("place" if random.random() < 0.7 else text, random)
        body = f'{{{name}: {escaped(text, random)}, "n": [1, {{"deep": {escaped(after, random)}}}]}}'
        reply = Reply(tool_calls=(Call("look", body),), chunk=chunk)
    elif kind == "thinking":
        reply = Reply(text="Done.", thinking=text, chunk=chunk)
    else:
        reply = Reply(text=text, chunk=chunk)
    wire = PROTOCOLS[provider]
    data = b"".join(wire.frames(reply, 1, {}))
    decoder, size = PROVIDERS[wire.name]("m", api_key="k").decoder(), random.choice([7, 50, 4000])
    events = [event for at in range(0, len(data), size) for event in decoder.feed(data[at : at + size])]
    return [*events, *decoder.finish()]


def in_two_blocks(random: Random, half: int) -> list[Any]:
    """A text whose reader joins two blocks, or the arguments that come by path."""
    before, after = planted(random, half)
    cut = random.randrange(1, len(SECRET))
    first, second = before + SECRET[:cut], SECRET[cut:] + after
    if random.random() < 0.5:
        return [
            BlockStart(0, BlockType.TOOL_USE),
            *random.choice(
                [
                    [InputValueDelta(0, "$.a", first), InputValueDelta(0, "$.a", second, append=True)],
                    [InputValueDelta(0, "$.a", [SECRET])],
                    [InputValueDelta(0, f"$.{SECRET}", first)],
                ]
            ),
            BlockStop(0, BlockType.TOOL_USE),
        ]
    delta: Any = random.choice([TextDelta, ThinkingDelta, RefusalDelta])
    return [
        *(BlockStart(0, BlockType.TEXT), delta(0, first), BlockStop(0, BlockType.TEXT)),
        *(BlockStart(1, BlockType.TEXT), delta(1, second), BlockStop(1, BlockType.TEXT)),
    ]


def as_read(events: Sequence[Any]) -> str:
    """The events, and the texts that a reader makes of them."""
    texts: dict[type[object], list[str]] = {}
    for event in events:
        if isinstance(event, TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta):
            texts.setdefault(type(event), []).append(event.text)
    values = assemble_arguments([event for event in events if isinstance(event, InputValueDelta)])
    joined = "\n".join("".join(each) for each in texts.values())
    return decoded(decoded(f"{joined}\n{values}\n{msgspec.json.encode(list(events)).decode()}"))


def results(random: Random, half: int) -> list[Any]:
    """What a tool writes."""
    before, after = planted(random, half)
    text, cut = before + SECRET + after, len(before) + random.randrange(len(SECRET))
    content: Any = random.choice([text, escaped(text, random), (Text(text[:cut]), Text(text[cut:]))])
    call, result = ToolCall("1", "look", {}), ToolResult("1", content)
    progress: Any = random.choice([text, {"seen": [before, {"deep": text}]}, {text: 1}])
    return [ToolProgress("1", progress), ToolStop(result), FinishedCall(PausedCall(0, call), result)]


async def through_calls(items: list[Any], gate: Any) -> list[Any]:
    before, after = gate_calls([gate])
    passed: list[Any] = []
    await Emitter[Any](passed.append).follow(after(before(reactivex.from_iterable(items))))
    return [item.result if isinstance(item, FinishedCall) else item for item in passed]


@pytest.mark.parametrize("part", range(7))
async def test_no_secret_leaves(part: int) -> None:
    found = 0
    for number in range(part, SECRETS, 7):
        random = Random(number)
        kind, half = KINDS[(number // 7) % 4], random.randint(len(SECRET), 24)
        window = 2 * half + random.choice([0, 0, 1, 9, 100])
        operator: Any = hold_back(is_clean, window=window, ahead=half, replacement="[-]")
        if kind == "results":
            items = results(random, half)
            left = await through_calls(items, operator.gate)
            items = items[:2]
        else:
            is_wire = number // 28 % 8
            items = response(random, kind, part, half) if is_wire else in_two_blocks(random, half)
            left = through(items, operator)
        found += SECRET in as_read(items)
        assert SECRET not in as_read(left), number
        assert any("rxworker.gate" in str(event) and "replace" in str(event) for event in left), number
    assert found > 0.9 * SECRETS / 7  # the secrets were there


async def test_checks_that_end_in_any_order_let_the_same_pass() -> None:
    for number in range(SECRETS // 40):
        random = Random(number)
        half = random.randint(2, 12)
        events = response(random, random.choice(KINDS[:3]), number % 7, half)
        window = 2 * half + random.choice([0, 0, 1, 9, 100])

        async def is_clean_later(text: str, random: Random = random) -> bool:
            for _ in range(random.randrange(6)):
                await asyncio.sleep(0)
            return "ab" not in text and is_clean(text)

        def is_clean_now(text: str) -> bool:
            return "ab" not in text and is_clean(text)

        now = through(events, hold_back(is_clean_now, window=window, ahead=half, replacement="-"))
        later: list[Event] = []
        at_most = random.randint(1, 6)
        gated = hold_back(is_clean_later, window=window, ahead=half, replacement="-", at_most=at_most)
        await Emitter[Any](later.append).follow(reactivex.from_iterable(events).pipe(gated))
        assert without_verdicts(later) == without_verdicts(now), number


def without_verdicts(events: list[Any]) -> list[Any]:
    return [event for event in events if getattr(event, "name", "") != "rxworker.gate"]


def test_pieces_of_arguments_do_not_depend_on_how_the_text_is_cut() -> None:
    tokens = ["a", "b", r"\\", r"\n", r"\u0041", r"\ud83d\ude00", r"\ud83d", r"\x", r"\"", "é"]
    for number in range(500):
        random = Random(number)
        text = "".join(random.choices(tokens, k=random.randint(0, 12)))
        pieces: list[tuple[str, str]] = []
        rest, at = "", 0
        while at < len(text):
            more, rest = pieces_of(rest + text[at : (at := at + random.randint(1, 4))], 3, is_json=True)
            pieces += more
        pieces += pieces_of(rest, 3, is_json=True, is_last=True)[0]
        assert "".join(raw for raw, _ in pieces) == text
        assert "".join(seen for _, seen in pieces) == decoded(text), number
