"""Stored runs again, against a candidate: the model and the tools from the log, in virtual time.

Theory of operation. The steps of the stored run are read once. The candidate runs with its own prompt, hooks, limits
and operators; its model gives the stored responses in order, and its tools are objects that return stored results. The
records of the candidate are read into steps as they come. Before each response the steps so far are compared, so that
the first difference ends the run: what would follow was never answered by a model. With the real model only the calls
and the answer are compared, and a call that the log does not know ends the run.

What surprises: what is not in the log cannot be compared. Then the outcome is ``not rerun`` with the reason, unless a
difference comes before.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Literal, Self, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from reactivex.scheduler import VirtualTimeScheduler

from rxworker.boards import read_selection
from rxworker.boards.selection import Selecting
from rxworker.errors import ConfigurationError, ExecutionFailedError, InputRefusedError, LocalProtocolError, nearest
from rxworker.events import Annotation, AttemptStart, Record, RunStart, SharedStateChange
from rxworker.events.arguments import arguments_object
from rxworker.hub.history import expand
from rxworker.log import EventLog
from rxworker.log.format import records_of
from rxworker.log.open import open_stored
from rxworker.log.values import CONVERSATION, RunRow
from rxworker.messages import Prices, ToolMeta, ToolResult
from rxworker.messages.settings import check_plain
from rxworker.providers.base import Request
from rxworker.providers.models import cost_of
from rxworker.redact import redact
from rxworker.resume.stored import digest_of, is_same_tool
from rxworker.run.run import Run
from rxworker.run.virtual import run_in
from rxworker.state import RunState
from rxworker.state.run import sorted_json
from rxworker.testing.lab.steps import Step, StepKind, StepReader
from rxworker.testing.reply import Reply
from rxworker.testing.scripted import Script, ScriptedModel, StoredResponse, responses_of
from rxworker.tools import Tool, Toolbox, ToolContext, ToolPolicy
from rxworker.tools.base import ClientTool, policy_of
from rxworker.tools.toolbox import ToolLike, adapted
from rxworker.transport import Retry
from rxworker.turn.limits import Budget
from rxworker.turn.result import Output, answer_of
from rxworker.ui.clean import one_line
from rxworker.worker.session import Session, Worker

if TYPE_CHECKING:
    import pytest


class Spent(Struct, frozen=True):
    """What a run took, with the runs inside it.

    Attributes:
        input_tokens: The tokens that the models have read; ``None`` if it is not known.
        output_tokens: The tokens that they have written; ``None`` if it is not known.
        cost: The cost; ``None`` if the price of any of them is not known.
        currency: Its currency.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    currency: str = ""

    @classmethod
    def of(cls, state: RunState) -> Self:
        """What a run took, of its state."""
        usage = state.usage
        cost = cost_of(state.usage_by_model, state.prices)
        is_known = usage.input_tokens is not None or usage.output_tokens is not None
        known = None if cost.unpriced or not is_known else cost.known
        return cls(usage.input_tokens, usage.output_tokens, known, cost.currency)


class LabRun:
    """A run of a log, as it is run again. Read them with `LabRun.read`.

    Args:
        run_id: Its id.
        records: Its records, from the first.
        row: What a list of the log shows of it, if it has a list.

    Attributes:
        run_id: Its id.
        records: Its records.
        labels: Its labels, which no report shows.
        allowed: The tools that a person always allowed, each with the hook that then pauses no run for it.
    """

    def __init__(self, run_id: str, records: Iterable[Record], row: RunRow | None = None) -> None:
        self.run_id = run_id
        self.records = tuple(records)
        known = self.start.labels if self.start is not None else {}
        self.labels, self.allowed = (known, ()) if row is None else (row.labels, row.allowed)

    def __repr__(self) -> str:
        return f"LabRun({self.run_id!r})"

    @classmethod
    async def read(cls, log: EventLog, where: str | Sequence[str] = ()) -> list[Self]:
        """The runs of a log that can be selected, the oldest first, without those that are nested in others.

        Args:
            log: The log.
            where: Filters, all of which hold: ``tag:NAME`` for runs with an annotation of that name whose value is not
                false, or ``NAME=VALUE`` as of ``rxworker dash --where``.

        Raises:
            ConfigurationError: There is no such filter.
            LogError: The log cannot be read.
        """
        filters = [where] if isinstance(where, str) else where
        tags = [each.removeprefix("tag:") for each in filters if each.startswith("tag:")]
        pairs = [each.partition("=") for each in filters if not each.startswith("tag:")]
        selection = read_selection([(name, value) for name, _, value in pairs])
        found: list[Self] = []
        async for infos in log.list_pages():
            for info in infos:
                if info.row.outer or not selection.may_have(info):
                    continue
                entries = [entry async for entry in log.read(info.run_id)]
                one = cls(info.run_id, records_of(entries, info.run_id), info.row)
                selecting = Selecting(selection)
                if one._has(tags) and (not pairs or any(map(selecting.feed, one.records))):
                    found.append(one)
        return found[::-1]

    def _has(self, tags: Collection[str]) -> bool:
        given = {each.name: each.value for each in map(Annotation.of, (r.event for r in self.records)) if each}
        return all(given.get(tag, False) is not False for tag in tags)

    @cached_property
    def start(self) -> RunStart | None:
        """Its first event, if it begins with its input."""
        first = next(iter(self.records), None)
        return first.event if first is not None and isinstance(first.event, RunStart) else None

    @cached_property
    def spent(self) -> Spent:
        """What it took."""
        return Spent.of(self.steps.state)

    @cached_property
    def responses(self) -> list[StoredResponse]:
        """Its responses, without those that were retracted."""
        return responses_of(self.records)

    @cached_property
    def left_out(self) -> frozenset[StepKind]:
        """The kinds of steps that are not compared, since another library has recorded the run without them."""
        starts = [each.event for each in self.records if isinstance(each.event, AttemptStart) and not each.path]
        if any(each.own_tools is not None for each in starts):
            return frozenset()
        kinds: list[StepKind] = ["tools", "verdict"]
        if self.start is None or not self.start.conversation.system:
            kinds.append("system")
        return frozenset(kinds)

    @cached_property
    def steps(self) -> StepReader:
        """Its steps."""
        reader = StepReader(self.left_out)
        for record in self.records:
            reader.feed(record)
        reader.finish()
        return reader


def stored_runs(address: str, where: str | Sequence[str] = ()) -> pytest.MarkDecorator:
    """Run a test of pytest once for each stored run, which is its parameter ``stored``.

    The log is read when the test is collected.

    Args:
        address: The address of the log, such as ``sqlite:runs.db``.
        where: As for `LabRun.read`.

    Raises:
        ConfigurationError: There is no such log, no such filter, or no such run.
        LogError: The log cannot be read.

    Example:
        A test, with the asyncio plugin of pytest::

            from my_workers import make_clerk
            from rxworker.testing import lab

            @lab.stored_runs("sqlite:runs.db", where="tag:golden")
            async def test_the_clerk_does_the_same(stored: lab.LabRun) -> None:
                outcome = await lab.rerun(stored, make_clerk)
                assert outcome.same, outcome
    """
    import pytest

    found = asyncio.run(read_runs(address, where))
    if not found:
        text = f"the log has no run {where or 'at all'}: annotate one, or give another where="
        raise ConfigurationError(text, page="run-again")
    return pytest.mark.parametrize("stored", found, ids=[each.run_id for each in found])


async def read_runs(address: str, where: str | Sequence[str]) -> list[LabRun]:
    """The runs of the log at an address; see `LabRun.read`."""
    async with open_stored(address) as log:
        return await LabRun.read(log, where)


Candidate: TypeAlias = Worker | Callable[[], Worker]
"""A worker, or a function that makes one for each run."""
Status: TypeAlias = Literal["same", "differs", "not rerun"]
"""How a run came out."""
MAX_SIDE = 200
"""The maximum number of characters of one side of a difference."""
REAL = ("call", "end")
"""The kinds of steps that are compared when the real model answers."""
LEAD = 40
"""How many characters of what both sides have are shown before that in which they differ."""


class Difference(Struct, frozen=True):
    """The first difference of two runs.

    Attributes:
        record: The number of the record of the stored run.
        kind: What differs: ``system``, ``input``, ``tools``, ``answer``, ``verdict``, ``call``, ``result``,
            ``messages`` or ``end``.
        before: The stored run there, in words.
        after: The candidate there, in words.
    """

    record: int
    kind: StepKind
    before: str
    after: str

    def __str__(self) -> str:
        return f"at record {self.record}: it was {self.before}; it is now {self.after}"


class Outcome(Struct, frozen=True):
    """A stored run that was run again.

    Attributes:
        run_id: The id of the stored run.
        status: ``same``; ``differs``; or ``not rerun``, if the log does not hold what the candidate would need.
        difference: The first difference; ``None`` if there is none.
        reason: Why it was not rerun, up to which record both were equal.
        before: What the stored run took.
        after: What the candidate took; ``None`` if it is not known, since no model answers after a difference.
    """

    run_id: str
    status: Status
    difference: Difference | None = None
    reason: str = ""
    before: Spent = Spent()
    after: Spent | None = None

    @property
    def same(self) -> bool:
        """Whether the candidate did the same."""
        return self.status == "same"

    def __str__(self) -> str:
        return (
            f"{self.run_id}: {self.status}" + (f" {self.difference}" if self.difference else f" {self.reason}").rstrip()
        )


async def rerun(
    stored: LabRun,
    candidate: Candidate,
    *,
    model: Literal["log", "real"] = "log",
    tools: Literal["log", "real"] | Sequence[str] = "log",
    budget: Budget | None = None,
) -> Outcome:
    """Run a stored run again with a candidate.

    Its model gives the stored responses, up to the first difference; its tools return the stored results, by their
    names, arguments and order; nothing waits, since time is virtual. Its hooks, operators and limits are its own.

    Args:
        stored: The run.
        candidate: The worker, or a function that makes one.
        model: ``real``: its own model answers, in real time. Then the calls of the run and its answer are compared.
        tools: ``real``, or the names of tools that are really run, in real time.
        budget: What all candidates may spend together with their own models.

    Raises:
        ConfigurationError: The candidate is not a worker, has a stage that cannot be answered from the log, or its
            model has no price for the budget.

    Example:
        >>> from rxworker.log import MemoryLog
        >>> from rxworker.testing import ScriptedModel
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         await Worker(ScriptedModel(["Hello."]), system="Be brief.", log=log).run("Hi")
        ...         [stored] = await LabRun.read(log)
        ...     print((await rerun(stored, Worker(ScriptedModel([]), system="Be brief."))).same)
        ...     print((await rerun(stored, Worker(ScriptedModel([]), system="Be kind."))).difference)
        >>> asyncio.run(main())
        True
        at record 1: it was the system prompt 'Be brief.'; it is now the system prompt 'Be kind.'
    """
    if not isinstance(candidate, Worker):
        check_plain("rerun(candidate)", candidate)
    worker = candidate if isinstance(candidate, Worker) else candidate()
    if not isinstance(worker, Worker):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(f"the candidate is {worker!r:.60}: give a Worker, or a function that makes one")
    one = _Rerun(stored, worker, model == "real", tools, budget)
    if (why := await one.hindrance()) is not None:
        return one.outcome(reason=why)
    if model == "real" or tools != "log":
        return await one.play()
    try:
        return await asyncio.to_thread(run_in, VirtualTimeScheduler(), one.play())
    except LocalProtocolError as error:  # the candidate waits for what never comes
        return one.outcome(reason=error.message)


async def rerun_stored(log: EventLog, run_id: str, candidate: Worker) -> Outcome:
    """Run one run of a log again, with the model and the tools from the log.

    A web server with ``rerun=rerun_stored`` does so with its workers, when a client requests it: its page shows how a
    run comes out with what is served now. The candidate's hooks run in an event loop of their own.

    Args:
        log: The log.
        run_id: The id of the run.
        candidate: The worker.

    Raises:
        ConfigurationError: As for `rerun`.
        LogError: The log cannot be read.

    Example:
        >>> from rxworker.log import MemoryLog
        >>> async def main() -> None:
        ...     async with MemoryLog() as log:
        ...         worker = Worker(ScriptedModel(["Hello."]), log=log)
        ...         run = worker.run("Hi")
        ...         await run
        ...         print((await rerun_stored(log, run.id, worker)).status)
        >>> asyncio.run(main())
        same
    """
    entries, info = [entry async for entry in log.read(run_id)], await log.listed(run_id)
    return await rerun(LabRun(run_id, records_of(entries, run_id), None if info is None else info.row), candidate)


class _Played(ScriptedModel):
    """The model of the stored run, or what is known of it."""

    prices: Prices | None
    context: int | None = None
    compacts = False


class _StoredTool:
    """A tool that returns what the log has."""

    def __init__(self, tool: Tool, of: _Rerun) -> None:
        self.meta = tool.meta
        usual = policy_of(tool)
        self.policy: ToolPolicy = replace(usual, timeout=None, max_output=None, background=False)
        self._tool, self._of = tool, of

    def __getattr__(self, name: str) -> object:
        return getattr(self._tool, name)

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ToolResult:
        """Return the stored result of a call with these arguments."""
        return self._of.result_of(self.meta, sorted_json(msgspec.json.decode(input_json)), context)


class _StoredTools(Toolbox):
    """A toolbox that runs no tools but those that are named; also of those that hooks add."""

    def __init__(self, tools: Toolbox, of: _Rerun, real: Callable[[str], bool]) -> None:
        self._of, self._real = of, real
        super().__init__(tools, error_formatter=tools.error_formatter)

    def add(self, *tools: ToolLike) -> None:
        super().add(*map(self._stored, map(adapted, tools)))

    def _stored(self, tool: Tool) -> Tool:
        is_kept = isinstance(tool, ClientTool) or self._real(tool.meta.name)
        return tool if is_kept else _StoredTool(tool, self._of)


class _Rerun:
    """One stored run and its candidate."""

    _run: Run[object] | None = None

    def __init__(
        self,
        stored: LabRun,
        candidate: Worker,
        is_real: bool,
        tools: Literal["log", "real"] | Sequence[str],
        budget: Budget | None,
    ) -> None:
        names = () if isinstance(tools, str) else tools
        if missing := [name for name in names if name not in candidate.tools]:
            remedy = f"{nearest(missing[0], candidate.tools.names)}; it has: {candidate.tools}"
            raise ConfigurationError(f"the candidate has no tool {missing[0]!r}{remedy}")
        own = "the candidate has a stage {} of its own, which the log cannot answer: give "
        if not candidate.starts_early and tools != "real":
            raise ConfigurationError(f"{own.format('call_tools')}tools='real' if they may run", page="run-again")
        if not candidate.takes_up and not is_real:
            raise ConfigurationError(f"{own.format('respond')}model='real' if it may answer", page="run-again")
        self._stored, self._is_real = stored, is_real
        worker = self._worker = copy.copy(candidate)
        worker._own = worker.log = worker.tracing = worker.scheduler = None
        worker.tools = _StoredTools(candidate.tools, self, lambda name: tools == "real" or name in names)
        self._budget = worker.budget = (budget or candidate.budget) if is_real else None
        if not is_real:
            self._play_model(worker)
        digests = {} if stored.start is None else stored.start.tools
        known = [(digests.get(meta.name), meta) for meta in candidate.tools.metas]
        changed = {meta.name for digest, meta in known if digest and not _is_same(digest, meta)}
        self._reader = StepReader(stored.left_out, changed, stops=False)
        self._calls = list(stored.steps.calls)
        self._stop = stored.steps.stop
        self._compared = self._asked = 0
        self._found: Difference | None = None
        self._reason = ""

    def _play_model(self, worker: Worker) -> None:
        """Let the log answer in place of the model."""
        first = next((each for each in self._stored.responses if each.provider), None)
        model = _Played([], name=first.provider if first else "", model=first.model if first else "")
        model._script = Script[Request, Reply | str | StoredResponse](self._answer)
        model.context = getattr(worker.model, "context", None)
        model.compacts = getattr(worker.model, "compacts", False)
        recorded = self._stored.steps.state.prices
        if model.model in recorded:
            model.prices = recorded[model.model]
        worker.model, worker.response_retry = model, Retry(retries=0)
        if worker.prices is None:  # a limit on the cost, which nothing can reach, would end the run
            worker.limits = replace(worker.limits, max_cost=None)

    async def hindrance(self) -> str | None:
        """Why the run cannot be run again at all."""
        stored, start = self._stored, self._stored.start
        if start is None or not start.conversation.messages:
            return self._stop[2] if self._stop is not None and stored.records else "the log does not have its input"
        if not stored.responses:
            return "the log has no response of its model"
        if any(seq < stored.responses[0].seq for seq in stored.steps.sent):
            return "messages were sent to it before its first request"
        if self._is_real and self._stop is not None:
            return f"there is no outcome to compare with: {self._stop[2]}"
        return await self._used_up()

    async def _used_up(self) -> str | None:
        found = None if self._budget is None else await self._budget.admit(self._worker.prices)
        return None if found is None else f"the budget is used up: {found[0].removeprefix('budget.')} is {found[1]:g}"

    async def play(self) -> Outcome:
        """Run the candidate, and compare."""
        start, worker = self._stored.start, self._worker
        assert start is not None, "nothing hinders it"
        messages = start.conversation.messages
        at = len(messages) - (start.added or 1)
        first = worker.initial_conversation.messages
        before = messages[:at] if messages[: len(first)] == first else (*first, *messages[:at])
        labels = {name: text for name, text in self._stored.labels.items() if name != CONVERSATION}
        conversation = replace(start.conversation.with_messages(before), system=worker.initial_conversation.system)
        shared = next(
            (each.event.value for each in self._stored.records[1:2] if isinstance(each.event, SharedStateChange)), None
        )
        session = Session(worker, conversation, shared_state=shared, allowed=self._stored.allowed, labels=labels)
        form = start.output_format
        try:
            run = self._run = session._start(messages[at:], None if form is None else Output.from_format(form))
        except InputRefusedError as error:
            return self.outcome(self._difference(self._stored.steps.steps[0], f"an input refused: {error.message}"))
        run.entries(name="lab").subscribe(self._reader.feed, lambda _: None)
        with suppress(Exception):  # the records have its end
            await run
        self._reader.finish()
        self._compare(is_over=True)
        is_limited = self._found is not None and self._reader.steps[-1].key == "limit"
        used_up = await self._used_up() if is_limited else None
        return self.outcome(None if used_up else self._found, used_up or self._reason)

    def outcome(self, difference: Difference | None = None, reason: str = "") -> Outcome:
        """How it came out. What a run takes that ends at a difference is not known."""
        status = "differs" if difference is not None else "not rerun" if reason else "same"
        has_ended = self._run is not None and (self._is_real or status == "same")
        after = Spent.of(self._run.state) if self._run is not None and has_ended else None
        return Outcome(self._stored.run_id, status, difference, redact(reason), self._stored.spent, after)

    def _answer(self, request: Request) -> StoredResponse:
        """The next stored response, unless something differs before it."""
        self._compare()
        is_over = self._stop is not None and self._compared >= self._stop[0]
        if self._asked == len(self._stored.responses) and self._found is None and not is_over:
            ours = self._stored.steps.steps[self._compared :]
            self._found = self._difference(ours[0] if ours else None, "one more request to the model")
        if self._found is not None or is_over or self._run is None:
            raise LocalProtocolError("the log has no further response for this run")
        response = self._stored.responses[self._asked]
        self._asked += 1
        kept, sent = self._run.state.conversation.sent, request.conversation
        is_edited = bool(request.edits) and (kept.system, kept.messages) != (sent.system, sent.messages)
        if is_edited and response.conversation is not None:
            hooks = ", ".join(dict.fromkeys(name for name, _ in request.edits))
            self._reason = f"equal, but {hooks} changes single requests, and the log does not have such changes"
        self._send(self._asked)
        return response

    def _send(self, answered: int) -> None:
        """Send what was sent into the stored run after so many requests."""
        for seq, messages in self._stored.steps.sent.items():
            if self._run is not None and sum(each.seq < seq for each in self._stored.responses) == answered:
                self._run.send(messages)

    def result_of(self, meta: ToolMeta, arguments: bytes, context: ToolContext) -> ToolResult:
        """The stored result of a call."""
        known = [each for each in self._calls if each.call.name == meta.name]
        known = [each for each in known if sorted_json(arguments_object(each.call.input, meta)) == arguments]
        found = next((each for each in known if each.call.id == context.call_id), known[0] if known else None)
        if context.call_id.startswith("hook_"):
            self._reason = f"a hook calls {meta.name}, and the log does not have the calls of hooks"
            found = None
        elif found is None and self._is_real and self._run is not None:
            self._run.cancel(reason="the log does not know a call")
        if found is None or found.result is None:
            raise ExecutionFailedError("the log does not know this call", tool=meta.name)
        self._calls.remove(found)
        for record in (one for each in found.inside for one in expand(each)):
            context.relay(replace(record, path=record.path[1:]))
        return found.result

    def _compare(self, *, is_over: bool = False) -> None:
        """Compare the steps since the last time; with the real model the calls, the end and the answer."""
        stored = self._stored.steps
        then, now = (
            [each for each in of.steps if not self._is_real or each.kind in REAL] for of in (stored, self._reader)
        )
        end = len(then) if self._stop is None else self._stop[0]
        while self._found is None and self._compared < min(end, len(now)):
            ours, theirs = then[self._compared], now[self._compared]
            is_equal = (ours.kind, ours.key) == (theirs.kind, theirs.key)
            if ours.unknown and ours.kind == theirs.kind and not (is_equal and theirs.unknown):
                self._stop = end = self._compared, ours.seq, ours.unknown
                return
            if not is_equal:
                self._found = self._difference(ours, theirs)
            self._compared += 1
        if not is_over or self._found is not None:
            return
        if self._compared < end:
            self._found = self._difference(*([*one[self._compared :], None][0] for one in (then, now)))
        elif self._stop is not None:
            self._reason = f"equal up to record {self._stop[1]}: {self._stop[2]}"
        elif self._is_real:
            was, is_now = (answer_of(of.state.conversation).strip() for of in (stored, self._reader))
            if was != is_now:
                seq = [each.seq for each in stored.steps if each.kind in ("answer", "end")][-2:][0]
                step = Step(seq, "answer", was, lambda: f"the answer {was!r}")
                self._found = self._difference(step, f"the answer {is_now!r}")

    def _difference(self, ours: Step | None, theirs: Step | str | None) -> Difference:
        kind = ours.kind if ours is not None else theirs.kind if isinstance(theirs, Step) else "end"
        seq = ours.seq if ours is not None else self._stored.steps.state.seq
        was = "nothing more" if ours is None else ours.shown()
        is_now = "nothing more" if theirs is None else theirs if isinstance(theirs, str) else theirs.shown()
        return Difference(seq, kind, *_apart(one_line(redact(was)), one_line(redact(is_now))))


def _is_same(digest: str, meta: ToolMeta) -> bool:
    """Whether a tool has the description and the parameters of a digest; one of an older rxworker has only these."""
    return digest == digest_of(meta) if "." in digest else is_same_tool(digest, meta)


def _apart(was: str, is_now: str) -> tuple[str, str]:
    """Two texts, each from a little before the place where they differ.

    >>> _apart("a" * 200 + "b", "a" * 200 + "c")[1] == "\N{HORIZONTAL ELLIPSIS}" + "a" * 40 + "c"
    True
    """
    common = next((at for at, (a, b) in enumerate(zip(was, is_now, strict=False)) if a != b), 0)
    if max(len(was), len(is_now)) > MAX_SIDE and common > LEAD:
        was, is_now = (f"\N{HORIZONTAL ELLIPSIS}{each[common - LEAD :]}" for each in (was, is_now))
    return one_line(was, MAX_SIDE), one_line(is_now, MAX_SIDE)
