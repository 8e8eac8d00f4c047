"""What a worker is: a model, its tools and hooks, settings and limits.

It holds nothing of a run, so any number of sessions share one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import replace
from reactivex import abc

from rxworker.errors import ConfigurationError
from rxworker.events import Event
from rxworker.hooks import Hooks
from rxworker.hooks.decorate import HookLike
from rxworker.log.base import EventLog
from rxworker.messages import Conversation, Json, Message, repair
from rxworker.messages.settings import check_number, check_plain, check_type
from rxworker.operators.kernel import Operator
from rxworker.providers import Options, Provider
from rxworker.resume.recovery import OnUnknown
from rxworker.run.run import Tracing
from rxworker.timeline import Timeline
from rxworker.tools import Toolbox
from rxworker.tools.results import ErrorFormatter
from rxworker.tools.toolbox import ToolLike
from rxworker.transport import Model, Retry
from rxworker.transport.client import as_model
from rxworker.turn.arguments import expect_folder, expect_labels, expect_operators, expect_several
from rxworker.turn.compact import Compact
from rxworker.turn.context import ResponseOperator, RunSettings, StageName, TurnStage
from rxworker.turn.limits import Budget, Limits, check_priced
from rxworker.turn.stages import STAGES, stages_of

logger = logging.getLogger("rxworker.worker")

ADD = "add=[Message.user('...')]"

# Values that never change: all workers share one of each.
HERE = Path()

USUAL = Limits()

SETTINGS = Options()

RETRY = Retry()

EMPTY = Conversation()

NONE: Mapping[Any, Any] = {}

ON_UNKNOWN = get_args(OnUnknown)

USUAL_STAGES = tuple(STAGES.values())


class Definition(RunSettings):
    """The part of a `Worker` that its sessions read: everything but their verbs."""

    priority = 0  # of its runs, where they are queued
    performs = True  # its runs; of a queued worker the beginning alone is stored
    # Not kept, since the next run may have another model.
    prices = property(RunSettings.prices.func)  # pyright: ignore[reportAssignmentType] - it has the same values

    def __init__(
        self,
        model: Provider | Model,
        *,
        tools: Iterable[ToolLike] = (),
        system: str | None = None,
        hooks: Iterable[HookLike] = (),
        options: Options | None = None,
        limits: Limits | None = None,
        operators: Sequence[ResponseOperator] = (),
        parallel: int = 8,
        error_formatter: ErrorFormatter | None = None,
        budget: Budget | None = None,
        compact: Compact | None = None,
        response_retry: Retry | None = None,
        conversation: Conversation | None = None,
        workspace: str | Path = ".",
        log: EventLog | None = None,
        name: str = "",
        labels: Mapping[str, str] | None = None,
        on_unknown: OnUnknown = "ask",
        tracing: Tracing | None = None,
        shared_state: Json = None,
        stages: Mapping[StageName, TurnStage] = NONE,
        around: Mapping[StageName, Operator[Event, Event]] = NONE,
        scheduler: abc.SchedulerBase | None = None,
        map_input: Callable[[Message], Message] | None = None,
    ) -> None:
        self.model = as_model(model)
        several = tools if isinstance(tools, Toolbox) else expect_several("tools", tools, "tools=[get_weather]")
        self.tools = Toolbox(several, error_formatter=error_formatter)
        self.hooks = Hooks(() if hooks == () else expect_several("hooks", hooks, "hooks=[permit]"))
        self.options = SETTINGS if options is None else check_type("options", options, Options, "options=Options(...)")
        self.limits = USUAL if limits is None else check_type("limits", limits, Limits, "limits=Limits(max_turns=3)")
        if self.limits.names_cost:
            check_priced(self.limits, self.prices, self.model.model)
        self.operators = () if operators == () else expect_operators(operators)
        self.parallel = parallel
        check_number("parallel", parallel, least=1, whole=True)
        self.budget = None if budget is None else check_type("budget", budget, Budget, "budget=Budget(max_tokens=1000)")
        self.compact = None if compact is None else check_type("compact", compact, Compact, "compact=Compact(at=0.8)")
        if self.compact is not None:
            self.compact.tokens(self.model)  # raises where it is not known
        again = "response_retry=Retry(retries=0)"
        retry = RETRY if response_retry is None else check_type("response_retry", response_retry, Retry, again)
        self.response_retry = retry
        self.workspace = HERE if workspace == "." else expect_folder(workspace)
        given = "conversation=Conversation((message,))"
        before = EMPTY if conversation is None else check_type("conversation", conversation, Conversation, given)
        if system is not None:
            before = replace(before, system=check_type("system", system, str, "system='Be brief.'"))
        self.initial_conversation = before
        self.timeline = Timeline(ends_with_stream=True)  # an attempt is a stream
        self.log = None if log is None else check_type("log", log, EventLog, "log=SQLiteLog('runs.db')")
        self.name = check_type("name", name, str, "name='desk'")
        self.labels = {} if labels is None else expect_labels(labels)
        _check(on_unknown, error_formatter, tracing, map_input)
        self.on_unknown: OnUnknown = on_unknown
        self.tracing, self.map_input = tracing, map_input
        self.initial_state = shared_state
        clock = "scheduler=TestScheduler()"
        self.scheduler = None if scheduler is None else check_type("scheduler", scheduler, abc.SchedulerBase, clock)
        self.stages = USUAL_STAGES if stages is NONE and around is NONE else stages_of(stages, around)
        self.starts_early, self.takes_up = "call_tools" not in stages, "respond" not in stages

    def mapped_history(self, given: Conversation) -> Conversation:
        """The conversation that a client has sent, as ``map_input`` has changed it.

        Raises:
            InputRefusedError: As for `mapped`.
        """
        system = given.system and self.mapped([Message.system(given.system)])[0].text
        return Conversation(self.mapped(given.messages), system)

    def added(self, add: Sequence[Message]) -> tuple[Message, ...]:
        """The messages that are added to a paused run, as ``map_input`` has changed them.

        Raises:
            ConfigurationError: They are not messages.
            InputRefusedError: As for `mapped`.
        """
        several = expect_several("add", add, ADD) if add else ()
        for message in several:
            check_type("a message of add", message, Message, ADD)
        return self.mapped(several)

    def continued(self, before: Conversation, added: tuple[Message, ...]) -> Conversation:
        """A conversation with an input, as it is sent.

        Raises:
            InputRefusedError: As for `mapped`.
        """
        added = added if self.map_input is None else self.mapped(added)
        if added[0].tool_results:  # of calls at the end of the conversation
            return repair(before.add(*added))
        return repair(before).add(*added)

    def check_matchers(self) -> None:
        """Check that no hook is without effect in the next run, since its matcher is misspelt.

        Raises:
            ConfigurationError: One is.
        """
        if self.hooks.has_matchers and self.performs:
            self.hooks.check_matchers(self.tools.names)

    def traceparent(self) -> str:
        """The trace context of the caller, as ``tracing`` has it; empty without it, or if it fails."""
        if self.tracing is None:
            return ""
        try:
            return self.tracing.traceparent()
        except KeyboardInterrupt:
            raise
        except BaseException:
            logger.warning("the caller's trace is not known to a run", exc_info=True)
            return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, tools=[{self.tools}])"


def _check(on_unknown: object, formatter: object, tracing: object, map_input: object) -> None:
    """Check a choice, and what must be a function, if it is given; the last two cannot wait.

    Raises:
        ConfigurationError: It is not.
    """
    if on_unknown not in ON_UNKNOWN:
        raise ConfigurationError(f"on_unknown={on_unknown!r}: give one of {ON_UNKNOWN}")
    if formatter is not None and not callable(formatter):
        raise ConfigurationError("error_formatter: give a function of an error that returns a text")
    if tracing is not None and not callable(tracing):
        raise ConfigurationError(f"tracing={tracing!r}: give tracing=OpenTelemetry()")
    check_plain("tracing", tracing)
    if map_input is not None:
        if not callable(map_input):
            raise ConfigurationError("map_input: give a function from a Message to a Message")
        check_plain("map_input", map_input)
