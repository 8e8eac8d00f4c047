"""What the models of each family take, what they cost, and until when they are served: one table. Pure.

The table is of the day in `DATED`, from the public pages in `SOURCES` and from the types of the official SDKs. A number
that no page gives is left out. Prices are those of the vendor's own service, in US dollars for a million tokens,
without discounts of limited time. What Gemini takes for the storage of an explicit cache is not a price of tokens, and
not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages.settings import Settings
from rxworker.messages.usage import Prices, Usage

DATED = "2026-11-29"
SOURCES = {
    "anthropic": (
        "https://platform.claude.com/docs/en/about-claude/pricing",
        "https://platform.claude.com/docs/en/build-with-claude/thinking",
        "https://platform.claude.com/docs/en/build-with-claude/prompt-caching",
        "https://platform.claude.com/docs/en/about-claude/model-deprecations",
        "anthropic 2.14: types/model.py, _data/deprecated_models.py",
    ),
    "openai": (
        "https://developers.openai.com/api/docs/models",
        "https://developers.openai.com/api/docs/pricing",
        "https://developers.openai.com/api/docs/guides/deployment-checklist",
        (
            "https://github.com/BerriAI/litellm/pull/34569 and https://github.com/livekit/agents/pull/7169: tools by "
            "Chat Completions"
        ),
        "https://github.com/bolna-ai/bolna/pull/1019 and https://github.com/huggingface/smolagents/issues/1893: stop",
        "https://developers.openai.com/api/docs/guides/prompt-caching",
        "openai 3.57: types/shared/chat_model.py, with the announced ends",
    ),
    "gemini": (
        "https://ai.google.dev/gemini-api/docs/pricing",
        "https://ai.google.dev/gemini-api/docs/deprecations",
        "https://ai.google.dev/gemini-api/docs/models/gemini-3.7-flash: replaced, and the same for 3.5",
        "https://docs.cloud.google.com/gemini-enterprise-agent-platform/models/thinking",
        "https://ai.google.dev/gemini-api/docs/generate-content/caching",
    ),
    "deepseek": (
        "https://api-docs.deepseek.com/guides/thinking_mode",
        "https://api-docs.deepseek.com/quick_start/pricing",
    ),
    "moonshot": (
        "https://platform.kimi.ai/docs/api/models-overview",
        "https://java.agentscope.io/v2/en/integration/model/kimi",
        "https://docs.apiyi.com/en/api-capabilities/kimi-k3-1/overview",
    ),
    "zai": (
        "https://docs.z.ai/guides/capabilities/thinking-mode",
        "https://docs.z.ai/guides/overview/pricing",
        "https://java.agentscope.io/v2/en/integration/model/glm",
        "https://docs.together.ai/docs/glm-5.3-quickstart",
    ),
    "minimax": (
        "https://platform.minimax.io/docs/api-reference/text-openai-api",
        "https://platform.minimax.io/docs/api-reference/responses-create",
        "https://java.agentscope.io/v2/en/integration/model/minimax",
        "https://help.aliyun.com/en/model-studio/minimax-m3-1-flash",
        "https://vercel.com/ai-gateway/models/minimax-m3.1-flash.md",
        "https://dev.to/aihubmix/fixing-requires-adaptive-thinking-2013-when-moving-from-minimax-m27-to-m31-flash-1iif",
    ),
    "xai": (
        "https://docs.x.ai/developers/models",
        "https://docs.x.ai/developers/model-capabilities/text/reasoning",
        "https://github.com/truefoundry/models/pull/2167: grok-4.6",
    ),
    "amazon": ("https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html",),
    "qwen": ("https://www.alibabacloud.com/help/en/model-studio/context-cache",),
}
"""Where the rows of a vendor are from."""

ADAPTIVE = "adaptive"


class ModelInfo(Settings, frozen=True, kw_only=True):
    """What a model takes, what it costs, and until when it is served.

    The defaults are those of a model of which nothing is known: it takes everything.

    Attributes:
        vendor: Who makes it.
        names: A regular expression of the names of its family, without a date or a version at their end.
        sampling: Whether it takes ``temperature``, ``top_p`` and ``top_k``: always, only when it does not think, or
            never.
        budget: The least number of tokens that it takes as a budget for thinking; ``None``: it takes no budget.
        efforts: The words for an effort that it takes, ``adaptive`` among them where the model itself decides;
            ``None``: any.
        off: What is sent so that it does not think: ``0`` for the word that the protocol has for it, another word, or
            nothing (an empty text); ``None``: it always thinks.
        idle: Whether it does not think unless it is requested.
        together: Whether it takes ``temperature`` and ``top_p`` in one request.
        forced: Whether a request may force it to call a tool: always, only when it does not think, or never.
        bound: Whether its thinking is only read again as long as nothing before it has changed, so that a request with
            a changed conversation is refused by default.
        chat_tools: Whether Chat Completions at its vendor takes tools: always, only where no thinking is requested, or
            only without thinking.
        stops: Whether Chat Completions takes texts at which it stops.
        structured: Whether an answer can be held to a schema; ``None``: not known.
        structured_with_tools: Whether it can in a request with tools; without it, the model reads the schema there.
        caching: How prompts are cached: by ``marks`` in the request; ``automatic``; automatically, and by
            ``breakpoints``, which may be set beside; or automatically, and by an ``explicit`` cache that is created;
            ``None``: not known.
        marked: The parts before the messages that take a mark.
        cache_least: Tokens that a prompt needs at least to be cached; ``None``: not known.
        context: Tokens that it reads and writes at once.
        output: Tokens that it writes at most.
        prices: Its prices.
        until: The last day on which it is served, if its end was announced, as ``2027-01-31``.

    Raises:
        ConfigurationError: There is no such member.

    >>> model_info("claude-haiku-4-5").budget, model_info("my-own-model").budget
    (1024, 1)
    """

    vendor: str = ""
    names: str = ""
    sampling: Literal["always", "without thinking", "never"] = "always"
    budget: int | None = 1
    efforts: tuple[str, ...] | None = None
    off: int | str | None = 0
    idle: bool = False
    together: bool = True
    forced: Literal["always", "without thinking", "never"] = "always"
    bound: bool = False
    chat_tools: Literal["always", "not requested", "without thinking"] = "always"
    stops: bool = True
    structured: bool | None = None
    structured_with_tools: bool = True
    caching: Literal["marks", "automatic", "breakpoints", "explicit"] | None = None
    marked: tuple[Literal["tools", "system"], ...] = ("tools", "system")
    cache_least: int | None = None
    context: int | None = None
    output: int | None = None
    prices: Prices | None = None
    until: str | None = None

    def matches(self, model: str) -> bool:
        """Whether a model is of this family, by its name.

        >>> model_info("gpt-5.1").matches("ft:gpt-5.1-2025-11-13:acme"), model_info("gpt-5.1").matches("gpt-5.1-codex")
        (True, False)
        """
        return bool(self.names) and _pattern(self.names).fullmatch(_bare(model)) is not None


# What may follow the name of a family: a date, a version, a variant of a cloud.
_END = r"(?:[-@](?:latest|default|preview|\d{8}|\d{4}-\d\d-\d\d|\d\d-\d\d|\d{3}))*(?:-v\d[\d.]*)?(?::.*)?"


@lru_cache(maxsize=256)
def _pattern(names: str) -> re.Pattern[str]:
    return re.compile(f"(?:{names}){_END}")


def _bare(model: str) -> str:
    """The name without what a cloud or a gateway puts before it.

    >>> _bare("us.anthropic.claude-haiku-4-5-20251001-v1:0"), _bare("models/gemini-3.8-flash"), _bare("ft:gpt-4.1:acme")
    ('claude-haiku-4-5-20251001-v1:0', 'gemini-3.8-flash', 'gpt-4.1:acme')
    """
    return _CLOUD.sub("", model.rpartition("/")[2]).removeprefix("ft:")


_CLOUD = re.compile(r".*?\b(anthropic|amazon)\.")


_COSTS = ("input", "output", "cache_read", "cache_creation")
_LONG = {
    # Above this number of tokens of a prompt, how many times as much its input and its output cost.
    "anthropic": (100_000, 5.0, 5.0),
    "openai": (272_000, 2.0, 1.5),
    "gemini": (200_000, 2.0, 1.5),
    "xai": (200_000, 2.0, 2.0),
    "minimax": (512_000, 2.0, 2.0),
}
_HOUR = 2.0  # what Anthropic takes for input that is cached for an hour, in its price


def _priced(
    row: ModelInfo, prices: dict[str, tuple[float, ...]], until: str | None = None, *, tiered: bool = False
) -> list[ModelInfo]:
    """A row for each of some families that differ by their prices.

    Input, output, and if known read from a cache and written to it.

    With ``tiered``, long prompts have the prices of `_LONG`.
    """
    return [
        replace(row, names=names, prices=_prices(row, cost, tiered), until=until or row.until)
        for names, cost in prices.items()
    ]


def _prices(row: ModelInfo, cost: tuple[float, ...], tiered: bool) -> Prices | None:
    if not cost:
        return None
    prices = Prices(**dict[str, Any](zip(_COSTS, cost, strict=False)))
    if row.vendor == "anthropic":
        prices = replace(prices, cache_creation_1h=_HOUR * prices.input)
    if not tiered:
        return prices
    above, of_input, of_output = _LONG[row.vendor]
    times = dict.fromkeys((*_COSTS, "cache_creation_1h"), of_input) | {"output": of_output}
    known = {name: getattr(prices, name) for name in times}
    long = {name: each and round(each * times[name], 6) for name, each in known.items()}
    return replace(prices, above=above, long=Prices(**long))


_EFFORTS = ("low", "medium", "high", "xhigh", "max")
_MILLION = 1_000_000

# Since Claude Opus 4.7: no sampling parameters but their defaults, and an effort instead of a budget.
_CLAUDE = ModelInfo(
    vendor="anthropic",
    sampling="never",
    budget=None,
    efforts=(ADAPTIVE, *_EFFORTS),
    structured=True,
    caching="marks",
    context=_MILLION,
    output=128_000,
)
# Since Claude Fable 5.1, see https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
_CLAUDE_BOUND = replace(_CLAUDE, bound=True)
_CLAUDE_ALWAYS = replace(_CLAUDE_BOUND, off=None, forced="never")
# Until Claude 4.6: a budget, and sampling parameters where it does not think.
_CLAUDE_BUDGET = replace(
    _CLAUDE,
    sampling="without thinking",
    budget=1_024,
    efforts=(),
    idle=True,
    together=False,
    forced="without thinking",
    context=200_000,
    output=64_000,
)
_CLAUDE_4_6 = replace(_CLAUDE_BUDGET, efforts=(ADAPTIVE, "low", "medium", "high", "max"), context=_MILLION)
_OPUS = (5.0, 25.0, 0.5, 6.25)

_GPT = ModelInfo(
    vendor="openai",
    sampling="never",
    budget=None,
    efforts=_EFFORTS,
    off=None,
    chat_tools="without thinking",
    stops=False,
    structured=True,
    caching="breakpoints",  # since GPT-5.6
    cache_least=1_024,
    context=1_050_000,
    output=128_000,
)
# Sampling parameters only without thinking, which can be turned off.
_GPT_EASED = replace(_GPT, sampling="without thinking", off=0)
_GPT_5 = replace(
    _GPT_EASED,
    efforts=("low", "medium", "high", "xhigh"),
    chat_tools="not requested",
    caching="automatic",
    context=400_000,
)
# Until GPT-5.2 and at the models for a chat, tools and thinking go together.
_GPT_5_1 = replace(_GPT_5, efforts=("low", "medium", "high"), chat_tools="always")
_GPT_CHAT = replace(_GPT_5_1, sampling="always", efforts=(), off="", idle=True, stops=True, context=None)
_O = replace(_GPT_5_1, sampling="never", off=None, context=200_000, output=100_000)
_GPT_4_1 = replace(_GPT_CHAT, context=1_047_576, output=32_768)

_GEMINI = ModelInfo(
    vendor="gemini",
    budget=None,
    efforts=(ADAPTIVE, "low", "medium", "high"),
    off=None,
    structured=True,
    caching="automatic",
    cache_least=4_096,
    context=1_048_576,
    output=65_536,
)
_GEMINI_3 = replace(_GEMINI, caching="explicit")  # until Gemini 4
# ``minimal`` matches no thinking for most requests, as the pages of Google have it.
_GEMINI_FLASH = replace(_GEMINI_3, efforts=(ADAPTIVE, "minimal", "low", "medium", "high"), off="minimal")
_GEMINI_2_5 = replace(_GEMINI_3, cache_least=2_048, budget=1, efforts=(ADAPTIVE,), off=0, structured_with_tools=False)

_DEEPSEEK = ModelInfo(
    vendor="deepseek",
    budget=None,
    efforts=("minimal", *_EFFORTS),
    caching="automatic",
    context=_MILLION,
    output=384_000,
)

# The sampling parameters are fixed.
_KIMI = ModelInfo(
    vendor="moonshot",
    sampling="never",
    budget=None,
    efforts=("low", "high", "max"),
    off=None,
    structured=True,
    caching="automatic",
    context=1_048_576,
    output=1_048_576,
)
# A tool cannot be forced.
_GLM = ModelInfo(vendor="zai", forced="never", caching="automatic")
_GLM_5_3 = replace(_GLM, budget=None, efforts=("low", "high", "max"), off=None, context=1_048_576, output=131_072)
_MINIMAX = ModelInfo(vendor="minimax", forced="never", caching="automatic", context=_MILLION, output=524_288)
_GROK = ModelInfo(
    vendor="xai",
    budget=None,
    efforts=("low", "medium", "high"),
    off=None,
    stops=False,
    structured=True,
    caching="automatic",
    context=500_000,
)

MODELS: tuple[ModelInfo, ...] = (
    # The first row of a vendor is that of its unknown models.
    *_priced(_CLAUDE_ALWAYS, {"claude-opus-5-5": (4.0, 20.0, 0.2, 5.0)}),
    *_priced(
        _CLAUDE_ALWAYS,
        {"claude-(fable|mythos)-5-2": (8.0, 40.0, 0.2, 10.0), "claude-(fable|mythos)-5-1": (10.0, 50.0, 0.25, 12.5)},
    ),
    *_priced(replace(_CLAUDE, off=None), {"claude-(fable|mythos)-5": (10.0, 50.0, 1.0, 12.5)}),
    replace(_CLAUDE, names="claude-mythos", off=None, until="2026-06-30"),
    *_priced(replace(_CLAUDE_BOUND, off="between_tools", forced="never"), {"claude-sonnet-5-5": (2.0, 10.0, 0.1, 2.5)}),
    *_priced(_CLAUDE_BOUND, {"claude-haiku-5-5": (0.1, 0.5, 0.01, 0.125)}, tiered=True),
    *_priced(_CLAUDE, {"claude-opus-5": _OPUS, "claude-sonnet-5": (2.0, 10.0, 0.2, 2.5)}),
    # They do not think unless it is requested, and there is a doubt whether they take ``disabled``.
    *_priced(replace(_CLAUDE, off="", idle=True, forced="without thinking"), {"claude-opus-4-[78]": _OPUS}),
    *_priced(replace(_CLAUDE_4_6, output=128_000), {"claude-opus-4-6": _OPUS}),
    *_priced(replace(_CLAUDE_4_6, output=None), {"claude-sonnet-4-6": (3.0, 15.0, 0.3, 3.75)}),
    *_priced(_CLAUDE_BUDGET, {"claude-haiku-4-5": (1.0, 5.0, 0.1, 1.25)}),
    *_priced(_CLAUDE_BUDGET, {"claude-opus-4-5": _OPUS}, "2027-01-22"),
    *_priced(_CLAUDE_BUDGET, {"claude-sonnet-4-5": (3.0, 15.0, 0.3, 3.75)}, "2026-11-30"),
    replace(
        _CLAUDE_BUDGET,
        names="claude-(opus|sonnet)-4(-[01])?|claude-(3|2|instant).*|claude-4-.*",
        structured=None,
        context=None,
        output=None,
        until="2026-06-15",
    ),
    *_priced(
        _GPT,
        {
            r"gpt-6\.2-sol": (2.0, 10.0, 0.1, 2.5),
            r"gpt-6\.2-astra": (8.0, 40.0, 0.4, 10.0),
            r"gpt-6\.1-sol": (2.0, 10.0, 0.1, 2.5),
            "gpt-6-astra": (10.0, 50.0, 1.0, 12.5),
        },
        tiered=True,
    ),
    *_priced(
        _GPT_EASED,
        {
            r"gpt-6\.1-terra": (1.0, 5.0, 0.05, 1.25),
            "gpt-6-sol": (2.0, 10.0, 0.2, 2.5),
            "gpt-6-luna": (0.1, 0.5, 0.01, 0.125),
        },
        tiered=True,
    ),
    *_priced(
        replace(_GPT_EASED, stops=True),
        {
            r"gpt-5\.6(-sol)?": (4.0, 20.0, 0.4, 5.0),
            r"gpt-5\.6-terra": (2.0, 12.0, 0.2, 2.5),
            r"gpt-5\.6-luna": (0.2, 1.2, 0.02, 0.25),
        },
        tiered=True,
    ),
    *_priced(replace(_GPT_5, stops=True, context=_MILLION), {r"gpt-5\.5": (5.0, 30.0, 0.5)}, tiered=True),
    *_priced(replace(_GPT_5, idle=True, context=1_050_000), {r"gpt-5\.4": (2.5, 15.0, 0.25)}, tiered=True),
    *_priced(replace(_GPT_5, idle=True), {r"gpt-5\.4-mini": (0.75, 4.5, 0.075)}),
    *_priced(replace(_GPT_5, idle=True, chat_tools="always"), {r"gpt-5\.2": (1.75, 14.0, 0.175)}),
    *_priced(replace(_GPT_5, idle=True), {r"gpt-5\.4-nano": (0.2, 1.25, 0.02)}, "2027-04-01"),
    *_priced(replace(_GPT_5_1, idle=True), {r"gpt-5\.1": (1.25, 10.0, 0.125)}, "2027-04-01"),
    *_priced(
        replace(_GPT_5, sampling="never", off=None, efforts=("medium", "high", "xhigh")),
        {r"gpt-5\.2-pro": (21.0, 168.0)},
    ),
    *_priced(
        replace(_GPT_5, sampling="never", off=None, efforts=("medium", "high", "xhigh")),
        {r"gpt-5\.[45]-pro": (30.0, 180.0)},
        tiered=True,
    ),
    replace(_GPT_5, names="gpt-5-pro", sampling="never", off=None, efforts=("high",)),
    *_priced(
        replace(_GPT_5, sampling="never", off=None), {r"gpt-5\.3-codex": (1.75, 14.0, 0.175), r"gpt-5\.1-codex-max": ()}
    ),
    replace(
        _GPT_5,
        names=r"gpt-5(\.\d)?-codex.*|codex-mini",
        sampling="never",
        off=None,
        efforts=("low", "medium", "high"),
        until="2026-07-23",
    ),
    replace(_GPT_CHAT, names=r"gpt-5\.[23]-chat", until="2026-08-10"),
    replace(_GPT_CHAT, names=r"gpt-5(\.1)?-chat", until="2026-07-23"),
    *_priced(
        replace(_GPT_5_1, sampling="never", off="minimal", efforts=("minimal", "low", "medium", "high")),
        {"gpt-5": (1.25, 10.0, 0.125), "gpt-5-mini": (0.25, 2.0, 0.025), "gpt-5-nano": (0.05, 0.4, 0.005)},
        "2026-12-11",
    ),
    *_priced(_O, {"o3": (2.0, 8.0, 0.5)}, "2026-12-11"),
    replace(_O, names="o[13]-pro|o[34](-mini)?-deep-research"),
    replace(_O, names="o1(-mini|-preview)?|o[34]-mini", structured=None, context=None, output=None, until="2026-10-23"),
    *_priced(_GPT_4_1, {r"gpt-4\.1": (2.0, 8.0, 0.5), r"gpt-4\.1-mini": (0.4, 1.6, 0.1)}, "2027-01-14"),
    replace(_GPT_4_1, names=r"gpt-4\.1-nano", until="2026-10-23"),
    *_priced(
        replace(_GPT_CHAT, context=128_000, output=None),
        {"gpt-4o(?!-2024-05-13)": (2.5, 10.0, 1.25), "gpt-4o-mini": (0.15, 0.6, 0.075)},
        "2027-01-14",
    ),
    replace(
        _GPT_CHAT,
        names=r"(gpt-4|gpt-3\.5|chatgpt-4o).*",
        structured=None,
        caching=None,
        output=None,
        until="2026-10-23",
    ),
    *_priced(
        replace(_GEMINI, efforts=(ADAPTIVE, "low", "medium", "high", "xhigh")),
        {"gemini-4-hydrogen": (1.5, 7.5, 0.075), "gemini-4-neon": (3.0, 15.0, 0.15)},
    ),
    *_priced(_GEMINI, {"gemini-4-(argon|carbon)": (4.0, 20.0, 0.2)}),
    *_priced(_GEMINI_3, {r"gemini-3\.8-flash": (1.5, 7.5, 0.15)}),
    # Requests for these have gone to the next version since then.
    *_priced(_GEMINI_3, {r"gemini-3\.7-flash": (1.5, 7.5, 0.15)}, "2026-10-09"),
    *_priced(_GEMINI_FLASH, {r"gemini-3\.5-flash": (1.5, 9.0, 0.15)}, "2026-10-09"),
    *_priced(_GEMINI_3, {r"gemini-3\.1-pro-preview(-customtools)?": (2.0, 12.0, 0.2)}, tiered=True),
    *_priced(
        _GEMINI_FLASH,
        {
            r"gemini-3\.6-flash": (1.5, 7.5, 0.15),
            r"gemini-3\.5-flash-lite": (0.3, 2.5, 0.03),
            "gemini-3-flash-preview": (0.5, 3.0, 0.05),
        },
    ),
    *_priced(_GEMINI_FLASH, {r"gemini-3\.1-flash-lite": (0.25, 1.5, 0.025)}, "2027-05-07"),
    replace(_GEMINI_3, names="gemini-3-pro", efforts=(ADAPTIVE, "low", "high"), until="2026-03-09"),
    *_priced(
        replace(_GEMINI_2_5, budget=128, off=None), {r"gemini-2\.5-pro": (1.25, 10.0, 0.125)}, "2026-12-01", tiered=True
    ),
    *_priced(_GEMINI_2_5, {r"gemini-2\.5-flash": (0.3, 2.5, 0.03)}, "2026-12-01"),
    *_priced(replace(_GEMINI_2_5, budget=512), {r"gemini-2\.5-flash-lite": (0.1, 0.4, 0.01)}),
    replace(_GEMINI, names=r"gemini-(1|2\.0).*", efforts=(), off="", context=None, output=None, until="2026-06-01"),
    replace(_DEEPSEEK, names="deepseek-flash|deepseek-v4-flash"),
    replace(_DEEPSEEK, names="deepseek-v4-pro", forced="without thinking"),
    replace(_DEEPSEEK, names="deepseek-(chat|reasoner)", until="2026-07-24"),
    *_priced(
        _KIMI,
        {
            r"(kimi-)?k3\.1-pro": (2.0, 10.0, 0.2),
            r"(kimi-)?k3\.1-pro-highspeed": (4.0, 20.0, 0.2),
            "kimi-k3": (3.0, 15.0, 0.3),
        },
    ),
    replace(
        _KIMI,
        names=r"kimi-k2\.7-code(-highspeed)?|kimi-k2-thinking.*",
        efforts=(),
        context=None,
        output=None,
        until="2026-12-31",
    ),
    replace(
        _KIMI,
        names=r"kimi-k2(\.[56])?",
        budget=1,
        efforts=None,
        off=0,
        forced="without thinking",
        context=262_144,
        output=None,
        until="2026-12-31",
    ),
    ModelInfo(vendor="moonshot", names="moonshot-v1.*"),
    *_priced(_GLM_5_3, {r"glm-5\.3": (1.4, 4.4, 0.26), r"glm-5\.3-flash": (0.15, 0.5, 0.03)}),
    *_priced(_GLM, {r"glm-5\.[12]": (1.4, 4.4, 0.26), "glm-5": (1.0, 3.2, 0.2), r"glm-4\.[567]": (0.6, 2.2, 0.11)}),
    replace(_GLM, names="glm-(4|z|5v|5-).*"),
    *_priced(
        replace(_MINIMAX, budget=None, efforts=(ADAPTIVE, *_EFFORTS), off=None, stops=False),
        {r"MiniMax-M3\.1-Flash(-Preview)?": (0.15, 0.6, 0.015)},
    ),
    *_priced(_MINIMAX, {"MiniMax-M3": (0.3, 1.2, 0.06)}, tiered=True),
    *_priced(
        replace(_MINIMAX, off=None, context=204_800, output=None),
        {
            r"MiniMax-M2\.7": (0.3, 1.2, 0.06, 0.375),
            r"MiniMax-M2\.7-highspeed": (0.6, 2.4, 0.06),
            r"MiniMax-M2\.5(-.*)?": (),
        },
        "2026-11-18",
    ),
    replace(_MINIMAX, names=r"MiniMax-M2(\.1)?(-.*)?", off=None, context=204_800, output=None),
    *_priced(replace(_GROK, efforts=("low", "medium", "high", "xhigh")), {r"grok-4\.6": (2.0, 6.0, 0.5)}, tiered=True),
    *_priced(_GROK, {r"grok-4\.5": (2.0, 6.0)}, tiered=True),
    *_priced(replace(_GROK, off=0, context=_MILLION), {r"grok-4\.3": (1.25, 2.5, 0.2)}),
    replace(_GROK, names="grok-4(-0709)?", efforts=(), context=256_000),
    ModelInfo(vendor="xai", names=r"grok-([23]|4-|4\.[12]|build|code).*"),
    # Of these the table has the caching and the forced calls alone.
    ModelInfo(vendor="amazon", names="nova-.*", caching="marks", marked=("system",)),
    ModelInfo(vendor="qwen", names=r"qwen3\.7.*", forced="without thinking", caching="marks", cache_least=1_024),
    ModelInfo(vendor="qwen", names="qwen.*", caching="marks", cache_least=1_024),
)
"""The rows, the newest families of a vendor first."""

UNKNOWN = ModelInfo()
"""The row of a model of which nothing is known: it takes everything."""

# Whose newest row an unknown name has, wherever it is served; the names of open weights do not show the service that
# has them.
_FAMILIES = {
    "anthropic": re.compile("claude"),
    "openai": re.compile(r"(chat)?gpt-\d|o\d"),
    "gemini": re.compile("gemini"),
    "amazon": re.compile("nova-"),
    "qwen": re.compile("qwen"),
}
# The own services of the vendors, where every name is theirs.
_HOSTS = {
    "api.anthropic.com": "anthropic",
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
    "api.deepseek.com": "deepseek",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot",
    "api.kimi.com": "moonshot",
    "api.z.ai": "zai",
    "open.bigmodel.cn": "zai",
    "api.minimax.io": "minimax",
    "api.minimaxi.com": "minimax",
    "api.x.ai": "xai",
    "dashscope.aliyuncs.com": "qwen",
    "dashscope-intl.aliyuncs.com": "qwen",
    "dashscope-us.aliyuncs.com": "qwen",
}


@lru_cache(maxsize=256)  # used for each request, and always the same
def model_info(model: str, host: str | None = None) -> ModelInfo:
    """What a model takes and costs, by the table.

    A name that is not in the table takes what the newest row of its vendor takes, which its beginning shows, or the
    host; its prices and its limits are not known, and ``names`` is empty. Any other name has a row that takes
    everything.

    Args:
        model: The name of the model, as a provider takes it.
        host: Where it is served. Open weights take other settings at another host than their vendor's.

    >>> model_info("claude-opus-5-5").prices.cache_creation_1h
    8.0
    >>> model_info("gpt-5.1").off, model_info("gpt-7").efforts, model_info("gpt-7").prices
    (0, ('low', 'medium', 'high', 'xhigh', 'max'), None)
    """
    at = _HOSTS.get(host or "")
    for row in MODELS:
        if (row.vendor in _FAMILIES or host is None or row.vendor == at) and row.matches(model):
            return row
    named = (vendor for vendor, family in _FAMILIES.items() if family.match(_bare(model)))
    vendor = next(named, at)
    newest = next((row for row in MODELS if row.vendor == vendor), UNKNOWN)
    return replace(newest, names="", prices=None, context=None, output=None, cache_least=None)


class Cost(Struct, frozen=True):
    """What tokens cost.

    Attributes:
        known: The cost of the tokens whose prices are known; ``None`` if there are tokens, and no price of them is
            known.
        currency: Its currency; empty without any cost.
        unpriced: The names of the models whose prices are not known, or are in another currency, since nothing is
            converted.
    """

    known: float | None = 0.0
    currency: str = ""
    unpriced: tuple[str, ...] = ()


def prices_of(
    model: str, recorded: Mapping[str, Prices | None] = {}, table: Mapping[str, Prices] | None = None
) -> Prices | None:
    """The prices of a model, for every figure that is a cost.

    Args:
        model: The name of the model.
        recorded: The prices that requests have recorded, by the names of models; ``None`` if they are not known. They
            come first.
        table: The prices that a program has given, by the names of models. Any other model has those of the table of
            models.

    >>> prices_of("claude-opus-5-5").input, prices_of("mine"), prices_of("mine", table={"mine": Prices(1.0, 2.0)}).input
    (4.0, None, 1.0)
    """
    found = recorded.get(model) or (table or {}).get(model)
    return model_info(model).prices if found is None and model not in recorded else found


def currency_of(table: Mapping[str, Prices] | None) -> str:
    """The currency of all figures by a table of prices: that of its first prices; empty without any.

    >>> currency_of({"mine": Prices(1.0, 2.0, currency="EUR"), "other": Prices(1.0, 2.0)})
    'EUR'
    """
    return next((prices.currency for prices in (table or {}).values()), "")


def cost_of(
    by_model: Mapping[str, Usage], recorded: Mapping[str, Prices | None], table: Mapping[str, Prices] | None = None
) -> Cost:
    """What the tokens of models cost, each by its own prices; see `prices_of`.

    Args:
        by_model: The tokens by the names of the models.
        recorded: As for `prices_of`.
        table: As for `prices_of`. The currency is that of `currency_of`, or else that of the first prices.

    >>> cost_of({"mine": Usage(1_000_000, 0), "other": Usage(5, 5)}, {"mine": Prices(1.5, 2.0)})
    Cost(known=1.5, currency='USD', unpriced=('other',))
    """
    known: float | None = None
    unpriced: list[str] = []
    currency = currency_of(table)
    for model, usage in by_model.items():
        if not usage.input_tokens and not usage.output_tokens:
            continue
        prices = prices_of(model, recorded, table)
        currency = currency or (prices.currency if prices else "")
        if prices is None or prices.currency != currency:
            unpriced.append(model or "unknown")
        else:
            known = (known or 0.0) + prices.cost(usage)
    return Cost(known if unpriced else known or 0.0, currency, tuple(unpriced))


def nearest_effort(word: str, efforts: Sequence[str]) -> str | None:
    """The effort that a model takes instead of one: the next higher, or else the highest.

    >>> nearest_effort("medium", ("low", "high")), nearest_effort("max", ("low", "high")), nearest_effort("low", ())
    ('high', 'high', None)
    """
    order = ("minimal", *_EFFORTS)
    known = [one for one in order if one in efforts]
    higher = [one for one in known if order.index(one) >= order.index(word)]
    return next(iter(higher), known[-1] if known else None)
