"""What the models of each family take, what they cost, and until when they are served: one table. Pure.

The table is ``models.json``, of the day in `DATED`, from the public pages that it names and from the types of the
official SDKs. A number that no page gives is left out. Prices are those of the vendor's own service, in US dollars for
a million tokens, without discounts of limited time. What Gemini takes for the storage of an explicit cache is not a
price of tokens, and not among them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.messages import JsonObject
from rxworker.messages.settings import Settings
from rxworker.messages.usage import Prices, Usage


class _Vendor(Struct, frozen=True, forbid_unknown_fields=True):
    """A vendor.

    Attributes:
        sources: Where its rows are from.
        hosts: Its own services, where every name is its own.
        family: A regular expression of the beginning of its models' names. An unknown name that begins so has its
            newest row, wherever it is served; the names of open weights do not show the service that has them.
        long: Above how many tokens of a prompt its input and its output cost how many times as much.
    """

    sources: tuple[str, ...]
    hosts: tuple[str, ...] = ()
    family: str = ""
    long: tuple[int, float, float] = (0, 1.0, 1.0)


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    dated: str
    vendors: dict[str, _Vendor]
    kinds: dict[str, JsonObject]
    models: tuple[JsonObject, ...]


_TABLE = msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=_Table)
DATED, VENDORS = _TABLE.dated, _TABLE.vendors

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
_HOUR = 2.0  # what Anthropic takes for input that is cached for an hour, in its price


def _prices(row: ModelInfo, cost: tuple[float, ...], tiered: bool) -> Prices | None:
    if not cost:
        return None
    prices = Prices(**dict[str, Any](zip(_COSTS, cost, strict=False)))
    if row.vendor == "anthropic":
        prices = replace(prices, cache_creation_1h=_HOUR * prices.input)
    if not tiered:
        return prices
    above, of_input, of_output = VENDORS[row.vendor].long
    times = dict.fromkeys((*_COSTS, "cache_creation_1h"), of_input) | {"output": of_output}
    known = {name: getattr(prices, name) for name in times}
    long = {name: each and round(each * times[name], 6) for name, each in known.items()}
    return replace(prices, above=above, long=Prices(**long))


def _whole(row: JsonObject) -> JsonObject:
    """The members of a row, with those of the kind that it is like."""
    like = row.get("like")
    return {**_whole(_TABLE.kinds[str(like)]), **row} if like else row


def _rows(given: JsonObject) -> list[ModelInfo]:
    """A row for each of some families that differ by their prices, or one without prices.

    Prices are those of input, output, and if known read from a cache and written to it. With ``tiered``, long prompts
    have other ones.
    """
    fields = {name: value for name, value in _whole(given).items() if name not in ("like", "why", "prices", "tiered")}
    row = msgspec.convert(fields, ModelInfo)
    costs = msgspec.convert(given.get("prices", {}), dict[str, tuple[float, ...]])
    tiered = given.get("tiered") is True
    return [replace(row, names=names, prices=_prices(row, cost, tiered)) for names, cost in costs.items()] or [row]


MODELS: tuple[ModelInfo, ...] = tuple(row for given in _TABLE.models for row in _rows(given))
"""The rows, the newest families of a vendor first."""

UNKNOWN = ModelInfo()
"""The row of a model of which nothing is known: it takes everything."""


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
    at = next((name for name, vendor in VENDORS.items() if host in vendor.hosts), None)
    families = {name: vendor.family for name, vendor in VENDORS.items() if vendor.family}
    for row in MODELS:
        if (row.vendor in families or host is None or row.vendor == at) and row.matches(model):
            return row
    named = (name for name, family in families.items() if re.match(family, _bare(model)))
    vendor = next(named, at)
    newest = next((row for row in MODELS if row.vendor == vendor), UNKNOWN)
    return replace(newest, names="", prices=None, context=None, output=None, cache_least=None)


class Cost(Struct, frozen=True):
    """What tokens cost.

    Attributes:
        known: The cost of the tokens whose prices are known; ``None`` if there are none, since none are reported, or
            no price of them is known.
        currency: Its currency; empty without any cost.
        unpriced: The names of the models whose prices are not known, or are in another currency, since nothing is
            converted.
    """

    known: float | None = None
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
    currency = currency_of(table) if table else ""
    for model, usage in by_model.items():
        if not usage.input_tokens and not usage.output_tokens:
            continue
        prices = prices_of(model, recorded, table)
        currency = currency or (prices.currency if prices else "")
        if prices is None or prices.currency != currency:
            unpriced.append(model or "unknown")
        else:
            known = (known or 0.0) + prices.cost(usage)
    return Cost(known, currency, tuple(unpriced))


def nearest_effort(word: str, efforts: Sequence[str]) -> str | None:
    """The effort that a model takes instead of one: the next higher, or else the highest.

    >>> nearest_effort("medium", ("low", "high")), nearest_effort("max", ("low", "high")), nearest_effort("low", ())
    ('high', 'high', None)
    """
    order = ("minimal", "low", "medium", "high", "xhigh", "max")
    known = [one for one in order if one in efforts]
    higher = [one for one in known if order.index(one) >= order.index(word)]
    return next(iter(higher), known[-1] if known else None)
