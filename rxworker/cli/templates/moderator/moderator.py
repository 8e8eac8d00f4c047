"""A worker whose text is checked before it is shown, and a board of what a moderator should read.

``rxworker serve --dashboard moderator:BOARD moderator:make_worker`` shows both.
"""

import os
import re

from reactivex import Observable
from reactivex import operators as ops
from rxworker import Worker
from rxworker.boards import Dashboard, panel
from rxworker.events import Record
from rxworker.operators import events, hold_back, mask, sentences, text_deltas
from rxworker.panels import run_of
from rxworker.providers import Anthropic
from rxworker.testing import ScriptedModel

SECRET = re.compile(r"password is \S+", re.IGNORECASE)
SUSPECT = re.compile(r"lawyer|refund|removed", re.IGNORECASE)


async def is_harmless(text: str) -> bool:
    """Whether a text may be shown. It receives each phrase whole; a call of a moderation service belongs here."""
    return SECRET.search(text) is None


def suspect(records: Observable[Record]) -> Observable[str]:
    """The sentences that a moderator should read."""
    texts = records.pipe(events(), sentences(), text_deltas())
    return texts.pipe(ops.filter(lambda text: SUSPECT.search(text) is not None))


def findings(records: Observable[Record]) -> Observable[int]:
    """How many of them there are."""
    return suspect(records).pipe(ops.scan(lambda count, _: count + 1, 0))


BOARD = Dashboard(
    [panel("Findings", findings, view="bar", group=run_of), panel("To read", suspect, view="text", group=run_of)],
    title="Moderation",
)


def make_model() -> Anthropic | ScriptedModel:
    """Claude, or a script where there is no key."""
    if os.environ.get("ANTHROPIC_API_KEY"):
        return Anthropic("claude-sonnet-5-5")
    return ScriptedModel(lambda _: "The password is hunter2. Card 4111111111111111 has a refund.")


def make_worker() -> Worker:
    """Answers letters.

    Long numbers are masked, and what is not harmless is replaced, before the page and the log have it.
    """
    checks = [mask(r"\d{12,}", "[number]"), hold_back(is_harmless, replacement="[removed]")]
    return Worker(make_model(), operators=checks, system="Answer letters of customers.")
