"""What responses cost: by the lengths of their prompts, and by what was read from a cache and written to it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.errors import ConfigurationError
from rxworker.messages import Json, JsonObject, Prices
from rxworker.messages.usage import SIZES, Usage, as_sum
from rxworker.providers import model_info
from rxworker.providers.anthropic.wire import read_usage as read_claude
from rxworker.providers.bedrock.decode import read_usage as read_converse
from rxworker.providers.gemini.wire import read_usage as read_gemini
from rxworker.providers.openai_responses.decode import read_usage as read_gpt
from rxworker.worker import Budget

# What a vendor reports, as it is read.
HOUR: JsonObject = {"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 3_000}
WRITTEN: JsonObject = {"cache_creation_input_tokens": 4_000, "cache_creation": HOUR}
CONVERSE: JsonObject = {
    "inputTokens": 500,
    "cacheReadInputTokens": 10_000,
    "cacheWriteInputTokens": 4_000,
    "cacheDetails": [{"ttl": "1h", "inputTokens": 3_000}, {"ttl": "5m", "inputTokens": 1_000}],
    "outputTokens": 200,
}
PASSES: Json = [
    {"type": "compaction", "input_tokens": 90_000, "output_tokens": 500},
    {"type": "message", "input_tokens": 30_000, "output_tokens": 100},
    {"type": "message", "input_tokens": 101_000, "output_tokens": 10},
]


def claude(whole: int, output: int, **more: Json) -> Usage:
    return read_claude({"input_tokens": whole, "output_tokens": output, **more})


def gpt(whole: int, cached: int, written: int = 0) -> Usage:
    details: JsonObject = {"cached_tokens": cached, "cache_write_tokens": written}
    return read_gpt({"input_tokens": whole, "input_tokens_details": details, "output_tokens": 1_000})


def gemini(whole: int, cached: int) -> Usage:
    counts: JsonObject = {"promptTokenCount": whole, "cachedContentTokenCount": cached, "candidatesTokenCount": 1_000}
    return read_gemini(counts)


# The cost in millionths of a dollar, by hand from the pages of the prices:
# https://platform.claude.com/docs/en/about-claude/pricing, https://developers.openai.com/api/docs/pricing,
# https://ai.google.dev/gemini-api/docs/pricing
OPUS_COST = 500 * 4.0 + 10_000 * 0.2 + 1_000 * 5.0 + 3_000 * 8.0 + 200 * 20.0
HAIKU_COST = 500 * 0.5 + 100_000 * 0.05 + 1_000 * 0.625 + 3_000 * 1.0 + 200 * 2.5
PASSES_COST = 120_000 * 0.1 + 600 * 0.5 + 101_000 * 0.5 + 10 * 2.5
SHORT_COST = 70_000 * 2.0 + 200_000 * 0.1 + 2_000 * 2.5 + 1_000 * 10.0
LONG_COST = 70_001 * 4.0 + 200_000 * 0.2 + 2_000 * 5.0 + 1_000 * 15.0
COSTS: dict[str, tuple[str, Usage, float]] = {
    "an hour and five minutes": (
        "claude-opus-5-5",
        claude(500, 200, cache_read_input_tokens=10_000, **WRITTEN),
        OPUS_COST,
    ),
    "converse, an hour and five minutes": ("us.anthropic.claude-opus-5-5", read_converse(CONVERSE), OPUS_COST),
    "long with no prices for it": ("claude-sonnet-5-5", claude(900_000, 10), 900_000 * 2.0 + 10 * 10.0),
    "long by what was cached": (
        "claude-haiku-5-5",
        claude(500, 200, cache_read_input_tokens=100_000, **WRITTEN),
        HAIKU_COST,
    ),
    "several passes, each by its own length": ("claude-haiku-5-5", claude(30_000, 100, iterations=PASSES), PASSES_COST),
    "claude, short": ("claude-haiku-5-5", claude(100_000, 200), 100_000 * 0.1 + 200 * 0.5),
    "gpt, short": ("gpt-6.2-sol", gpt(272_000, 200_000, 2_000), SHORT_COST),
    "gpt, long": ("gpt-6.2-sol", gpt(272_001, 200_000, 2_000), LONG_COST),
    "gpt, no price of its own for writing": (
        "gpt-5.4",
        gpt(300_000, 200_000),
        100_000 * 5.0 + 200_000 * 0.5 + 1_000 * 22.5,
    ),
    "gpt, longer than another vendor's limit": ("gpt-6.2-sol", gpt(600_000, 0), 600_000 * 4.0 + 1_000 * 15.0),
    "gemini, short": ("gemini-3.1-pro-preview", gemini(200_000, 50_000), 150_000 * 2.0 + 50_000 * 0.2 + 1_000 * 12.0),
    "gemini, long": ("gemini-3.1-pro-preview", gemini(250_000, 50_000), 200_000 * 4.0 + 50_000 * 0.4 + 1_000 * 18.0),
    "gemini, flat": ("gemini-4-neon", gemini(900_000, 0), 900_000 * 3.0 + 1_000 * 15.0),
    "minimax, short": ("MiniMax-M3", gpt(512_000, 0), 512_000 * 0.3 + 1_000 * 1.2),
    "minimax, long": ("MiniMax-M3", gpt(600_000, 100_000), 500_000 * 0.6 + 100_000 * 0.12 + 1_000 * 2.4),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_response_costs_what_the_page_of_its_prices_has(name: str) -> None:
    model, usage, cost = COSTS[name]
    prices = model_info(model).prices
    assert prices is not None
    assert prices.cost(usage) == pytest.approx(cost / 1e6)


PRICES = Prices(2.0, 12.0, 0.2, 2.5, cache_creation_1h=4.0, above=200_000, long=Prices(4.0, 18.0, 0.4))


def used(size: int, output: int, read: int | None, written: int | None, hour: int) -> Usage:
    """What a service can report: what was read and written is a part of the input."""
    read, written = read and min(read, size // 2), written and min(written, size // 2)
    hour = min(hour, written or 0)
    return Usage(size, output, read, written, cache_creation_1h_tokens=hour, raw={"its": "own"})


RESPONSES = st.builds(
    used,
    st.integers(0, 700_000) | st.sampled_from([*SIZES, *(size + 1 for size in SIZES)]),
    st.integers(0, 1_000),
    st.integers(0, 200_000) | st.none(),
    st.integers(0, 200_000) | st.none(),
    st.integers(0, 200_000),
)


@given(st.lists(RESPONSES, max_size=8), st.integers(0, 8))
def test_a_sum_costs_as_much_as_its_responses_however_it_was_added_up(several: list[Usage], at: int) -> None:
    """Also after it was stored, and as a budget counts it, whose runs report their sums so far."""
    whole, first, last = Usage(), Usage(), Usage()
    budget = Budget(prices=PRICES)
    for n, each in enumerate(several):
        whole += each
        first, last = (first + each, last) if n < at else (first, last + each)
        budget.report("a" if n < at else "b", first if n < at else last)
    cost = pytest.approx(sum(PRICES.cost(each) for each in several))
    assert PRICES.cost(whole) == cost
    assert PRICES.cost(first + last) == cost
    assert PRICES.cost(msgspec.json.decode(msgspec.json.encode(whole), type=Usage)) == cost
    assert budget.cost == cost
    assert PRICES.cost(budget.spent) == cost


def test_many_short_prompts_are_not_one_long_prompt() -> None:
    many = sum([Usage(90_000, 0)] * 10, Usage())
    assert many.input_tokens == 900_000
    assert PRICES.cost(many) == pytest.approx(1.8)
    assert PRICES.cost(as_sum(Usage(900_000, 0))) == pytest.approx(1.8)
    assert PRICES.cost(Usage(900_000, 0)) == pytest.approx(3.6)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"above": 200_000}, "give both above=... and long=..."),
        ({"long": PRICES}, "give both above=... and long=..."),
        ({"above": 150_000, "long": PRICES}, "give one of 100000, "),
        ({"above": 200_000, "long": (4.0, 18.0)}, "Prices.long. is a tuple"),
        ({"cache_creation_1h": -1.0}, "Prices.cache_creation_1h."),
    ],
)
def test_prices_that_cannot_be_right_are_refused(given_: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Prices(1.0, 2.0, **given_)
