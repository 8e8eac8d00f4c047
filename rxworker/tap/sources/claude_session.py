"""The sessions of Claude Code, and the sub-agents that their calls begin. Pure.

Theory of operation. A sub-agent has a file of its own, or its lines lie among those of its session (older versions).
Either way it is a session of its own, the runs of which are inside the call that has begun it. No event of the one file
depends on another file, but for the end: a run ends when its last response and all its sub-agents have, which may go on
in the background while the next run begins. So the events of each path are the same ones whenever the files are read
again, in whatever order: lines of a sub-agent that come before their call wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from rxworker.messages import JsonObject, Message
from rxworker.state.run import Cause
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.claude_thread import Thread
from rxworker.tap.sources.sessions import Session


class RunTree(Struct):
    """A run with its sub-agents: it ends when they have.

    Attributes:
        run: Its builder.
        going: The calls whose sub-agents go on, by their ids.
        has_ended: Whether all else has.
    """

    run: RunBuilder
    going: dict[str, Call] = {}
    has_ended: bool = False

    def close(self, call: Call) -> None:
        """A sub-agent is over."""
        call.is_over = True
        self.going.pop(call.id, None)
        if call.agent is not None and call.agent.tree is self:
            call.agent.run.end()
        if self.has_ended and not self.going:
            self.run.time = self.run.time if call.agent is None else call.agent.run.time
            self.run.end()


class Call(Struct):
    """A call that may begin a sub-agent.

    Attributes:
        id: Its id.
        prompt: The prompt of the sub-agent.
        run: The run, or the sub-agent, that makes it.
        tree: The run in which that is.
        agent: The sub-agent, when something of it was read.
        is_over: Whether it is over.
        reported: The run in which that was reported, after which more of the sub-agent may still be read.
    """

    id: str
    prompt: str
    run: RunBuilder
    tree: RunTree
    agent: ClaudeSession | None = None
    is_over: bool = False
    reported: RunTree | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the last line that was read is of a response without calls: most versions have its end as well."""
        return self.agent is not None and not (self.agent.main.is_whole or self.agent.main.calls)


class Calls(Struct):
    """The calls of a session and its sub-agents.

    Attributes:
        made: Those that were read, by their ids.
        held: The lines of sub-agents whose call was not read yet.
        reported: Those whose sub-agents are over, as their results or notifications have it.
    """

    made: dict[str, Call] = {}
    held: dict[str, list[tuple[ClaudeSession, JsonObject]]] = {}
    reported: list[Call] = []

    def of(self, prompt: str) -> str:
        """The first call with a prompt that has no sub-agent; empty for none."""
        found = [name for name, call in self.made.items() if call.agent is None and call.prompt == prompt]
        return next(iter(found), "")


class ClaudeSession(Session):
    """A session, or a sub-agent of one.

    Attributes:
        calls: The calls of the session.
        call: The call that has begun this sub-agent, if it is known.
        is_agent: Whether it is a sub-agent.
        main: What runs.
        tree: The run in which it does.
        roots: The calls of the lines of sub-agents in the file of the session, by the ids of the lines.
        notes: Messages of the program since the last run, with which it may go on by itself.
    """

    calls: Calls = field(default_factory=Calls)
    call: str = ""
    is_agent: bool = False
    main: Thread = field(default_factory=lambda: Thread(RunBuilder()))
    tree: RunTree = field(default_factory=lambda: RunTree(RunBuilder()))
    roots: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[Message] = field(default_factory=list[Message])

    def proceed(self, line: JsonObject, *given: Message) -> None:
        """Begin another run; that of a sub-agent is inside its call, as long as the run around it goes on."""
        self.end()
        name, call = str(line.get("uuid"))[:8], self.calls.made.get(self.call)
        if call is None or call.tree.run.status == "over":
            self.begin(name, *given)
            self.tree = RunTree(self.run)
        else:
            self.begin(name, *given, inside=call.run.beside(self.call))
            self.tree, call.agent = call.tree, self
            self.tree.going[self.call] = call
        self.main, self.notes, self.roots = Thread(self.run), [], {}

    def hand_back(self, names: Iterable[str], *, is_over: bool = True, is_awaited: bool = False) -> None:
        """Some calls have their results.

        Args:
            names: Their ids.
            is_over: Whether their sub-agents are over, of which more may still be read.
            is_awaited: Whether the run does not end before they are.
        """
        for call in [self.calls.made[name] for name in names if name in self.calls.made]:
            if is_awaited and call.run is self.run and not call.is_over:
                self.tree.going[call.id] = call
            if is_over and not call.is_over:
                call.reported = self.tree
                self.calls.reported.append(call)

    def end(self) -> None:
        """End the run. One with sub-agents that go on ends when they have, or at the latest with the next one."""
        if self.run.status != "running":
            return
        if self.tree.run is not self.run:
            self.tree.close(self.calls.made[self.call])
            return
        for call in [each for each in self.calls.reported if each.is_idle or each.reported is not self.tree]:
            self.calls.reported.remove(call)
            call.tree.close(call)
            self.ended += call.tree.run.take()
        if not self.tree.going:
            self.run.end()
            return
        self.run.end_turn()
        self.ended += self.run.take()
        self.tree.has_ended, time = True, self.run.time
        self.run = RunBuilder()
        self.run.time, self.main = time, Thread(self.run, self.main.response)

    def abort(self, reason: str, cause: Cause = "error") -> None:
        """The run was cut short, with the sub-agents inside."""
        is_inside = self.tree.run is not self.run
        for call in () if is_inside else self.tree.going.values():
            if call.agent is not None:
                call.agent.run.abort(reason)
        self.run.abort(reason, cause)
        if is_inside:
            self.tree.close(self.calls.made[self.call])
