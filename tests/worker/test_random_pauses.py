"""Random hooks, pauses, decisions and ways to resume.

Every guard is asked about exactly what runs, and nothing runs twice.
"""

from __future__ import annotations

import random

from rxworker import Answer, Approve, Deny, Paused, Worker, after_tool_call, before_tool_call, on_turn_end, tool
from rxworker.hooks import Hook, Pause, ToolCallContext, ToolResultContext, TurnEndContext, chain
from rxworker.messages import ToolCall, validate
from rxworker.testing import ScriptedModel, call, lint
from rxworker.tools import Tool
from rxworker.worker import Decision, load_paused, save_paused
from tests.whole import IS_WHOLE

NAMES = ["guard", "permit", "approve", "stop", "ask"]

Told = tuple[str, str, str]
"""The id of a call, its tool, and its argument."""


class Walk:
    """One random worker, and what its hooks and tools have seen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.ran: list[tuple[str, str]] = []
        self.guards: dict[str, list[Told]] = {}
        self.approved: set[tuple[str, str]] = set()
        self.decided: set[str] = set()
        self.ends = 0
        self.hooks = self._hooks()
        self.tools = [self._tool("plain"), self._tool("careful", requires_approval=True)]
        count = self.random.randint(1, 3)
        calls = [call(self.random.choice(["plain", "careful"]), x=f"{n}") for n in range(count)]
        reply = calls[0]
        for other in calls[1:]:
            reply = reply + other
        self.model = ScriptedModel([reply, "Done."])

    def _tool(self, name: str, *, requires_approval: bool = False) -> Tool:
        @tool(name=name, requires_approval=requires_approval)
        async def run(x: str) -> str:
            self.ran.append((name, x))
            return f"secret {x}"

        return run

    def _hooks(self) -> list[Hook[ToolCallContext]]:
        hooks: list[Hook[ToolCallContext]] = []
        for name in self.random.sample(NAMES, self.random.randint(0, 4)):
            hooks.append(self._guard(name) if self.random.random() < 0.5 else self._pauser(name))
        return [chain(*hooks[:2], name="both"), *hooks[2:]] if len(hooks) > 2 else hooks

    def _guard(self, name: str) -> Hook[ToolCallContext]:
        seen = self.guards[name] = []

        @before_tool_call(name=name)
        def look(context: ToolCallContext) -> None:
            seen.append((context.call.id, context.call.name, str(context.input["x"])))

        return look

    def _pauser(self, name: str) -> Hook[ToolCallContext]:
        @before_tool_call(name=name)
        def stop(_: ToolCallContext) -> Pause | None:
            return Pause(name) if self.random.random() < 0.5 else None

        return stop

    def worker(self) -> Worker:
        @after_tool_call
        def mask(context: ToolResultContext) -> None:
            context.set_content(context.result.text.replace("secret", "***"))

        @on_turn_end(name="review")
        def stop(_: TurnEndContext) -> Pause | None:
            return Pause("?") if self.random.random() < 0.4 else None

        @on_turn_end(matcher="plain|careful")
        def end(_: TurnEndContext) -> None:
            self.ends += 1

        return Worker(self.model, tools=self.tools, hooks=[*self.hooks, mask, stop, end])

    def decide(self, paused: Paused[None]) -> list[Decision | None] | None:
        """Random decisions, which fit the calls."""
        at = paused.pause.at
        decisions = [self._decision(each, number == at) for number, each in enumerate(paused.pending)]
        if any(decisions) and self.random.random() < 0.7:
            for each, decision in zip(paused.pending, decisions, strict=True):
                if isinstance(decision, Approve):
                    given = decision.input or each.input
                    self.approved.add((each.name, str(given["x"])))  # type: ignore[index]
                elif decision is not None:
                    self.decided.add(each.id)
            return decisions
        if at is not None:
            self.approved.add((paused.pending[at].name, str(paused.pending[at].input["x"])))  # type: ignore[index]
        return None

    def _decision(self, each: ToolCall, is_paused_at: bool) -> Decision | None:
        edited = Approve(input={"x": f"{each.input['x']}+"})  # type: ignore[index]
        choices: list[Decision | None] = [Approve(), edited, Deny("no"), Answer("secret")]
        return self.random.choice(choices if is_paused_at else [*choices, None, None])


async def check_walk(seed: int) -> None:
    """No guard is passed over in one random run."""
    walk = Walk(seed)
    worker = walk.worker()
    runs = [worker.run("go")]
    if walk.random.random() < 0.5:
        runs[0].pause()
    result = await runs[0]
    while isinstance(result, Paused):
        decisions = walk.decide(result)
        if walk.random.random() < 0.5:
            result, worker = load_paused(save_paused(result)), walk.worker()
        runs.append(worker.resume(result, decisions=decisions))
        if walk.random.random() < 0.2:
            runs[-1].pause()
        result = await runs[-1]
    for run in runs:
        assert lint([record async for record in run]) == []
    assert validate(result.conversation) == []
    assert walk.ends == 1
    assert "secret" not in str(result.conversation)
    began = [x.rstrip("+") for _, x in walk.ran]
    assert len(began) == len(set(began))
    for name, x in walk.ran:
        call_id = f"call_1_{int(x.rstrip('+')) + 1}"
        assert call_id not in walk.decided
        assert name == "plain" or (name, x) in walk.approved
        assert all((call_id, name, x) in seen for seen in walk.guards.values())


async def test_no_guard_is_passed_over() -> None:
    for seed in range(400 if IS_WHOLE else 100):
        await check_walk(seed)
