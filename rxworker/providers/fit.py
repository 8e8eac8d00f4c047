"""The settings of a request, fitted to what its model takes. Pure.

An amount of thinking is sent in the form that the model has for it: a budget becomes an effort by its size, and an
effort a budget. A setting for which the model has no form is refused before the request is sent. What an application
puts into ``extra`` is sent as it is, but for the sampling parameters.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rxworker.errors import ConfigurationError
from rxworker.providers.base import Options
from rxworker.providers.extra import effort
from rxworker.providers.models import ADAPTIVE, ModelInfo, nearest_effort

OFF = ("off", "none", "disabled")
DYNAMIC = (ADAPTIVE, "dynamic", "auto")
SAMPLING = ("temperature", "top_p", "top_k")
# The budget for an effort; `effort` gives the same effort for it.
BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576}


def fitted(model: str, info: ModelInfo, options: Options, room: int | None = None) -> Options:
    """The settings as the model takes them.

    Args:
        model: The model's name, for errors.
        info: What the model takes.
        options: The settings as they were given.
        room: The maximum of tokens that the provider sends where none is given. A budget that becomes an effort counts
            on top of it.

    Raises:
        ConfigurationError: The model does not take a setting; the message names what it takes.

    >>> from rxworker.providers.models import model_info
    >>> fitted("claude-opus-4-8", model_info("claude-opus-4-8"), Options(thinking=8_000)).thinking
    'medium'
    >>> fitted("claude-opus-4-8", model_info("claude-opus-4-8"), Options(temperature=0.2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    rxworker.errors.ConfigurationError: 'claude-opus-4-8' takes no temperature: leave it out ...
    More: rxworker docs providers-and-keys
    """
    changed: dict[str, Any] = {}
    thinking = options.thinking
    if thinking is not None:
        thinking = _thinking(model, info, thinking)
    if isinstance(options.thinking, str) and isinstance(thinking, int) and options.max_tokens:
        thinking = min(thinking, options.max_tokens // 2)  # the other half is for the answer
        if 0 < thinking < (info.budget or 0) or (thinking == 0 and options.thinking not in OFF):
            least = 2 * (info.budget or 1)
            raise refused(model, f"needs max_tokens={least} or more to think")
    if thinking != options.thinking:
        changed["thinking"] = thinking
        budget = options.thinking
        if isinstance(budget, int) and options.max_tokens is None and room is not None:
            # An effort counts against the limit as its budget would have.
            most = room + budget
            changed["max_tokens"] = min(most, info.output or most)
    given = {"temperature": options.temperature} if options.temperature is not None else {}
    given |= options.extra
    if info.sampling == "never" or (info.sampling != "always" and _thinks(info, options.thinking)):
        for name in SAMPLING:
            if given.get(name) not in (None, 1):  # the default, which every model takes
                unless = "" if info.sampling == "never" else " unless thinking=0"
                raise refused(model, f"takes no {name}{unless}: leave it out")
        if info.sampling == "never" and options.temperature is not None:
            changed["temperature"] = None
    if info.output is not None and (options.max_tokens or 0) > info.output:
        raise refused(model, f"writes at most {info.output} tokens: lower max_tokens")
    choice = options.tool_choice
    if info.forced != "always" and choice is not None and choice.mode in ("any", "tool"):
        if info.forced == "never":
            raise refused(model, "cannot be forced to call a tool: use ToolChoice('auto')")
        if _thinks(info, options.thinking):
            off = "thinking=0" if info.off is not None else "another model"
            raise refused(model, f"cannot be forced to call a tool while it thinks: use {off}, or ToolChoice('auto')")
    if not info.together and given.get("temperature") is not None and given.get("top_p") is not None:
        raise refused(model, "takes temperature or top_p, not both: leave one of them out")
    if info.structured is False and options.output is not None:
        raise refused(model, "cannot be held to a schema: leave output out, and describe the form")
    return replace(options, **changed) if changed else options


def _thinking(model: str, info: ModelInfo, thinking: int | str) -> int | str | None:
    """The amount of thinking, in a form that the model takes."""
    efforts = info.efforts
    words = [word for word in efforts or () if word != ADAPTIVE]
    if thinking == 0 or thinking in OFF:
        if info.off is None:
            least = f"thinking={words[0]!r}" if words else f"thinking={info.budget}"
            raise refused(model, f"always thinks: leave thinking out, or use {least}")
        return None if info.off == "" else info.off
    if isinstance(thinking, int):
        if info.budget is not None and thinking >= info.budget:
            return thinking
        if info.budget is not None:
            raise refused(model, f"takes a thinking budget from {info.budget} tokens up")
        word = nearest_effort(effort(thinking), words)
        if efforts is None or word is not None:
            return word or thinking
    elif efforts is None or thinking in efforts:
        return thinking
    elif thinking in DYNAMIC and ADAPTIVE in efforts:
        return ADAPTIVE
    elif info.budget is not None and thinking in BUDGETS:
        return BUDGETS[thinking]
    if not (words or info.budget):
        what = "always thinks as it decides" if info.off is None else "does not think"
        raise refused(model, f"{what}: leave thinking out")
    taken = [f"thinking={word!r}" for word in efforts or ()]
    taken += [f"a budget, such as thinking={BUDGETS['low']}"] if info.budget else []
    raise refused(model, f"does not take thinking={thinking!r}: use {' or '.join(taken)}")


def _thinks(info: ModelInfo, thinking: int | str | None) -> bool:
    """Whether the model thinks with this amount."""
    return not info.idle if thinking is None else not (thinking == 0 or thinking in OFF)


def refused(model: str, what: str) -> ConfigurationError:
    """The error for a setting that the model does not take."""
    hint = "if that has changed, pass info=ModelInfo(...) to the provider"
    return ConfigurationError(f"{model!r} {what} ({hint})")
