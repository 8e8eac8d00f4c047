"""The policy by which a worker's requests stay shorter than what its model reads. Pure; `compaction` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, cast, get_args

from rxworker.errors import ConfigurationError
from rxworker.messages.settings import Settings, check_number, check_type

CompactBy: TypeAlias = Literal["model", "trim", "provider"]

PROMPT = """Everything before this message is about to be removed from your context. Write the summary that takes its \
place, so that you can go on with the work from it alone. Keep: what the user wants, in their words where they matter; \
what was decided, and why; what was found or made, with exact names, paths, numbers and errors; what was tried and \
failed; what is still to do. Call no tools. Answer with the summary and nothing else."""


KEEP = 0.25
# What a way to compact has no use for, and its default.
UNUSED: Mapping[str, Mapping[str, object]] = {"trim": {"prompt": PROMPT}, "provider": {"keep": KEEP, "prompt": PROMPT}}


class Compact(Settings, frozen=True):
    """When and how the requests of a run become shorter. The conversation of the run, and what its log has, stay whole.

    The size of a request is what the provider has counted for the one before, and an estimate of what was added since.
    From ``at`` on, the oldest turns are sent in a shorter form. That is recorded as a
    `rxworker.events.ConversationCompact`, and kept in the conversation: the later requests, runs of the session, forks
    and recovered runs send the same form. So the provider's cache is missed once for each compaction. A compaction that
    would make a request shorter by less than a tenth of ``at`` is not made.

    Args:
        at: From which size on: a share of what the model reads and writes at once, as a float, or a whole number of
            tokens.
        keep: What stays as it is: the last turns that have room in this share of ``at``, or a whole number of last
            turns, as far as they take no more than half of ``at``. A turn is an answer with the results of its tools.
            The last one always stays, and so do system messages and the question that a turn which stays helps to
            answer.
        by: ``model``: the model writes a summary, in one more request with the same tools and settings, so that it
            reads the provider's cache. The ``on_message_send`` hooks run for it, its tokens count for limits and
            budgets, and no watcher receives it as an answer. ``trim``: the oldest turns are left out. ``provider``: the
            provider does it by itself, see ``compact_at`` of `rxworker.providers.Options`: Anthropic and OpenAI
            Responses.
        prompt: The message with which a summary is requested, with ``by="model"``.

    Raises:
        ConfigurationError: A value has another type or is out of range, or the provider decides about it.

    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> from rxworker.worker import Compact
    >>> Worker(ScriptedModel(["Hello!"]), compact=Compact(at=100_000, by="trim")).run_sync("Hi").text
    'Hello!'
    """

    at: float = 0.8
    keep: float = KEEP
    by: CompactBy = "model"
    prompt: str = PROMPT

    def __post_init__(self) -> None:
        """Check the values."""
        for name, value in (("at", self.at), ("keep", self.keep)):
            is_share = isinstance(value, float)
            check_number(f"Compact({name})", value, above=0, whole=not is_share)
            if is_share and value > 1:
                raise ConfigurationError(
                    f"Compact({name})={value!r}: give a share as a number up to 1.0, or a whole number of "
                    f"{'tokens' if name == 'at' else 'turns'}"
                )
        if self.by not in get_args(CompactBy):
            raise ConfigurationError(f"Compact(by)={self.by!r}: give one of {get_args(CompactBy)}")
        check_type("Compact(prompt)", self.prompt, str, "prompt='Write down what is left to do.'")
        for name, usual in UNUSED.get(self.by, {}).items():
            if getattr(self, name) != usual:
                message = f"Compact(by={self.by!r}) does not take {name}: leave it out"
                raise ConfigurationError(message)

    def tokens(self, model: object) -> int:
        """From how many tokens on the requests of a model are compacted.

        Args:
            model: The model. Its ``context`` is read where ``at`` is a share.

        Raises:
            ConfigurationError: What the model reads at once is not known, or its provider does not compact.
        """
        if self.by == "provider" and not getattr(model, "compacts", False):
            raise ConfigurationError(
                f"Compact(by='provider'): {model!r} does not compact by itself: use by='model' or by='trim'"
            )
        if not isinstance(self.at, float):
            return int(self.at)
        context = cast("int | None", getattr(model, "context", None))
        if context is None:
            raise ConfigurationError(
                f"Compact(at={self.at!r}) is a share of what the model reads at once, and that is not known for "
                f"{model!r}: give a number of tokens, such as Compact(at=100_000), or pass info=ModelInfo(context=...) "
                "to the provider"
            )
        return int(self.at * context)
