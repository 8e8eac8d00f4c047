"""``rxworker providers check``: what the tables have of a model and its service, whose rules a request must keep."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from typing import cast

from rxworker.cli.process import FAILED, misuse, write_json, write_line
from rxworker.cli.providers import find_provider
from rxworker.messages import JsonObject
from rxworker.providers.models import DATED, VENDORS, ModelInfo
from rxworker.providers.openai_chat.dialects import Dialect
from rxworker.providers.origin import maker_of
from rxworker.providers.service import Service
from rxworker.providers.takes import ANYTHING, TAKES, listed
from rxworker.ui.clean import one_line

USUAL = {"anthropic": "anthropic", "openai": "openai-responses", "google": "gemini"}


def providers(
    action: str, model: str, *, provider: str | None = None, base_url: str | None = None, as_json: bool = False
) -> int:
    """Print what is known of a model; 1 if it is not in the table, or is not served any more.

    Its arguments are those of the command; see ``rxworker providers check --help``.

    Raises:
        CommandError: There is no such provider, or the address is not one.
    """
    del action  # there is one
    with misuse():
        service = find_provider(provider or (not base_url and USUAL.get(maker_of(model))) or "openai-chat")(
            model, base_url=base_url
        )
        rules = dict(rules_of(service, date.today()))
    if as_json:
        write_json(cast("JsonObject", {"model": model, "provider": service.name, "service": service.service, **rules}))
    else:
        write_line(f"{one_line(model, 100)} by {service.name} at {service.service}, by the tables of {DATED}")
        for name, text in rules.items():
            write_line(f"  {name:<22} {text}")
    return FAILED if "warning" in rules else 0


def rules_of(service: Service, today: date) -> Iterator[tuple[str, str]]:
    """The rules of a model at its service, each with its name.

    Args:
        service: A provider with that model.
        today: The day that the end of the model is compared with.

    >>> from rxworker.providers import Anthropic
    >>> dict(rules_of(Anthropic("claude-haiku-4-5"), date(2026, 11, 29)))["forced calls"]
    'only when it does not think'
    """
    info = service.info
    if not info.names:
        what = "fitted as for the newest of its vendor" if info.vendor else "sent as they are"
        yield "warning", f"not in the table: its settings are {what}, its prices and limits are not known"
    elif info.until and info.until < today.isoformat():
        yield "warning", f"not served since {info.until}"
    elif info.until:
        yield "served until", info.until
    yield "prices", _prices(info)
    yield "tokens", f"{_number(info.context)} in all, {_number(info.output)} written"
    yield "thinking", _thinking(info)
    together = "" if info.together else "; temperature or top_p, not both"
    yield "sampling parameters", WHEN[info.sampling] + together
    yield "forced calls", WHEN[info.forced]
    form = {None: "not known", True: "yes", False: "no"}[info.structured]
    dialect: Dialect | None = getattr(service, "dialect", None)
    yield "a schema", form + ("" if service.structures_beside_tools else "; beside tools the model reads it")
    if dialect is not None:
        if dialect.after_results:
            yield "after results", f"an answer, {dialect.after_results!r}, before a message of the user's"
        if dialect.demands_reasoning:
            yield "reasoning_content", f"required in {dialect.demands_reasoning}"
    takes = TAKES.get(service.name, ANYTHING)
    yield "pictures", listed(takes.pictures)
    yield "documents beside text", listed(takes.documents if dialect is None else dialect.documents)
    if takes.not_at_top:
        yield "schemas of tools", f"without {', '.join(sorted(takes.not_at_top))} at the top"
    if takes.properties:
        yield "arguments of tools", f"named {takes.properties.pattern}"
    yield "names of tools", takes.names.pattern
    if takes.description:
        yield "descriptions of tools", f"{takes.description:,} characters"
    if info.vendor:
        yield "sources", VENDORS[info.vendor].sources[0]


WHEN = {"always": "yes", "without thinking": "only when it does not think", "never": "no"}


def _prices(info: ModelInfo) -> str:
    if info.prices is None:
        return "not known"
    known = info.prices
    kinds = {"in": known.input, "out": known.output, "from the cache": known.cache_read}
    listed = ", ".join(f"{price:g} {kind}" for kind, price in kinds.items() if price is not None)
    return f"{listed}, {known.currency} for a million tokens"


def _number(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _thinking(info: ModelInfo) -> str:
    if not info.vendor:
        return "not known"
    parts = [] if info.budget is None else [f"a budget from {info.budget:,} tokens"]
    if info.efforts:
        parts.append(" ".join(info.efforts))
    parts.append(
        "always" if info.off is None else "only if it is requested" if info.idle else "unless it is turned off"
    )
    return ", ".join(parts)
