"""The session files of Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``.

Theory of operation. A line is a message, or a part of one: each block of a response has a line of its own, with the id
and the usage of the response. So a response is what has one id. Every prompt begins a run, and the end of a turn, an
interrupt or the next prompt ends it. The file of a sub-agent is ``<session>/subagents/agent-<id>.jsonl``; what is known
of it, with the call that has begun it, is in ``agent-<id>.meta.json``, which is written before. Older versions have no
such file: the prompt of a sub-agent is that of its call. One whose call is not found is a run of its own in the
conversation of its session.

A sub-agent has a file of its own, or its lines lie among those of its session (older versions). Either way it is a
session of its own, the runs of which are inside the call that has begun it. No event of the one file depends on another
file, but for the end: a run ends when its last response and all its sub-agents have, which may go on in the background
while the next run begins. So the events of each path are the same ones whenever the files are read again, in whatever
order: lines of a sub-agent that come before their call wait for it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct, field

from rxworker.messages import JsonObject, Message
from rxworker.messages.usage import Usage, less
from rxworker.providers.anthropic.wire import read_usage
from rxworker.state.run import Cause
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.session_files import ABOUT, Session, SessionMapper, labels_of
from rxworker.tap.sources.values import json_of, kind_of, member, members, object_of, stop_of, text, text_of


class Thread(Struct):
    """What writes responses one after the other: a run, or a sub-agent inside a call.

    Attributes:
        run: Its builder.
        response: The id of its last response.
        usage: What that took.
        counted: The part of it that another response of the run has.
        is_whole: Whether the response has ended.
        calls: The ids of its calls without a result.
    """

    run: RunBuilder
    response: str = ""
    usage: Usage | None = None
    counted: Usage | None = None
    is_whole: bool = True
    calls: set[str] = set()

    def take_results(self, results: Sequence[object]) -> None:
        """Take the results of calls; those of other calls are left out."""
        for each in results:
            name = text(each, "tool_use_id")
            if name in self.calls and self.run.status != "over":
                self.calls.remove(name)
                self.run.tool_stop(name, text_of(member(each, "content")), is_error=member(each, "is_error") is True)
                self.is_whole = True

    def take_response(self, name: str, model: str, blocks: Sequence[object] = (), usage: Usage | None = None) -> None:
        """Take blocks of a response, and what it took so far."""
        run, known = self.run, self.usage if self.response == name else None
        if self.response != name or self.is_whole:  # or the result of a call came between two of its parts
            run.request(model, "anthropic", name, since=run.last)  # a file has the ends of its parts
            self.counted = known
        self.response, self.is_whole, self.usage = name, False, usage or known
        for each in blocks:
            kind = kind_of(each)
            if kind == "text":
                run.text(text(each, "text"), object())  # a block of its own
            elif kind == "thinking":
                run.thinking(text(each, "thinking"), object())
            elif kind == "tool_use":
                call = text(each, "id")
                run.call(call, text(each, "name"), json_of(object_of(member(each, "input"))))
                self.calls.add(call)
        if usage is not None and usage != known:
            run.usage(less(usage, self.counted))


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


AGENT = "agent-"
"""The beginning of the name of the file of a sub-agent."""
INTERRUPTED = "[Request interrupted by user"
COMMANDS = ("<command-name>", "<command-message>", "<local-command-", "<bash-")
"""The beginnings of what is noted of a command of the program itself."""
SYNTHETIC = "<synthetic>"
"""The model of messages that no model has written."""
ENDS = ("end_turn", "stop_sequence", "max_tokens", "refusal")
NOTIFIED = re.compile(r"<task-notification>.*?<tool-use-id>(.*?)</tool-use-id>", re.DOTALL)
"""Finds the call of a sub-agent in the background that is over."""


class ClaudeCode(SessionMapper[ClaudeSession]):
    """Makes runs of the lines of `session_files`: a mapper for `rxworker.tap.tap_each`.

    Each prompt is a run, named by the session and the prompt. A sub-agent is inside its call, and the run goes on until
    its sub-agents have ended. Runs have the session as their ``conversation``, and the name of the folder as their
    ``project``. Costs are those of the table of models. Not in the files: the system prompt, the parts of a response as
    they are written, the service, and how long a call waited for a permission within the time of its tool.

    Args:
        name: The name of the program in lists.

    Example:
        >>> lines = [
        ...     '{"type":"user","sessionId":"s","uuid":"u1","message":{"role":"user","content":"Hello"}}',
        ...     '{"type":"assistant","sessionId":"s","uuid":"a1","message":{"id":"m1","model":"claude-opus-5",'
        ...     '"content":[{"type":"text","text":"Hi."}],"stop_reason":"end_turn","usage":{"output_tokens":2}}}',
        ... ]
        >>> mapper = ClaudeCode()
        >>> events = [each for line in lines for each in mapper.feed(("s.jsonl", line))]
        >>> events[0].run, type(events[-1].event).__name__
        ('s-u1', 'RunStop')
    """

    NAME = "claude-code"
    FOLDER = "~/.claude/projects"

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._calls = defaultdict[str, Calls](Calls)
        self._about: dict[str, str] = {}  # the calls of sub-agents, by the paths of their files without an ending

    def _session(self, path: str, line: JsonObject) -> ClaudeSession | None:
        if path.endswith(ABOUT):
            self._about[path.removesuffix(ABOUT)] = text(line, "toolUseId")
        if line.get("type") not in ("user", "assistant", "system"):
            return None
        file = Path(path).stem
        name, is_agent = str(line.get("sessionId") or file), file.startswith(AGENT)
        key, calls = f"{name}-{file}" if is_agent else name, self._calls[name]
        session = self._sessions.get(key)
        if session is None:
            call = is_agent and (self._about.get(path.removesuffix(".jsonl")) or calls.of(_given(line)))
            session = self._new(key, labels_of(name, line.get("cwd")), calls, call or "", is_agent)
        if not session.call or session.call in calls.made:
            return session
        calls.held.setdefault(session.call, []).append((session, line))
        return None

    def _new(self, key: str, labels: dict[str, str], calls: Calls, call: str, is_agent: bool) -> ClaudeSession:
        self._sessions[key] = ClaudeSession(self._name, key, labels, calls=calls, call=call, is_agent=is_agent)
        return self._sessions[key]

    def _take(self, session: ClaudeSession, line: JsonObject) -> None:
        if line.get("isSidechain") is True and not session.is_agent:
            self._inside(session, line)
        elif line["type"] == "user":
            self._user(session, line)
        elif line["type"] == "assistant":
            self._assistant(session, line)
        elif session.run.status == "running":
            self._system(session, line)

    def _user(self, session: ClaudeSession, line: JsonObject) -> None:
        given, run = _given(line), session.run
        message = Message.user(given)
        if results := _blocks(line, "tool_result"):
            session.main.take_results(results)
            calls = [text(each, "tool_use_id") for each in results]
            is_over = member(line, "toolUseResult.status") != "async_launched"
            session.hand_back(calls, is_over=is_over, is_awaited=bool(member(line, "toolUseResult.agentId")))
        elif given.startswith(INTERRUPTED):
            session.abort("it was interrupted by the user", "cancel") if run.status == "running" else None
        elif line.get("isCompactSummary") is True:
            session.earlier.replace(message)
        elif line.get("forkedFrom"):  # a copy of what another session has
            session.earlier.add(message)
        elif line.get("isMeta") is not True and not given.startswith(COMMANDS):
            session.proceed(line, message)
            session.hand_back(NOTIFIED.findall(given))
        elif run.status == "running":
            run.add(message)
        else:
            session.notes.append(message)

    def _assistant(self, session: ClaudeSession, line: JsonObject) -> None:
        said, stop = _given(line), member(line, "message.stop_reason")
        if line.get("isApiErrorMessage") is True:
            if session.run.status == "running":
                session.run.fail(said, text(line, "error") or None)
                session.abort(said)
            return
        is_last = session.main.response == member(line, "message.id")
        if (is_last and session.run.status != "running") or member(line, "message.model") == SYNTHETIC:
            return
        is_copy = bool(line.get("forkedFrom"))
        if not is_copy and session.run.status != "running":  # the program goes on by itself
            session.proceed(line, *session.notes)
        session.earlier.add(Message.assistant(said))
        if is_copy:
            return
        _response(session.main, line)
        for each in _blocks(line, "tool_use"):
            if prompt := text(each, "input.prompt"):
                name = text(each, "id")
                session.calls.made[name] = Call(name, prompt, session.run, session.tree)
                for agent, held in session.calls.held.pop(name, ()):
                    self._read(agent, held)
                    session.ended += agent.take()
        if stop in ENDS and len(_blocks(line, "thinking")) < len(members(line, "message.content")):
            session.run.respond(stop_of(stop))
            session.end()

    def _system(self, session: ClaudeSession, line: JsonObject) -> None:
        if line.get("subtype") == "api_error":
            session.run.retract(text(line, "error.formatted") or text(line, "error.message") or "error")
            session.main.response = ""
        elif line.get("subtype") == "compact_boundary":
            session.run.custom("claude_code.compact", object_of(line.get("compactMetadata")))
        elif line.get("subtype") == "turn_duration":
            session.end()

    def _inside(self, session: ClaudeSession, line: JsonObject) -> None:
        """A line of a sub-agent in the file of the session: its first one has the prompt of its call."""
        call = session.roots.get(text(line, "parentUuid")) or session.calls.of(_given(line))
        if call not in session.calls.made:
            return
        session.roots[text(line, "uuid")] = call
        key = f"{session.key}-{call}"
        agent = self._sessions.get(key) or self._new(key, session.labels, session.calls, call, is_agent=True)
        self._read(agent, line)
        session.ended += agent.take()


def _given(line: JsonObject) -> str:
    return text_of(member(line, "message.content"))


def _blocks(line: JsonObject, kind: str) -> list[object]:
    return [each for each in members(line, "message.content") if member(each, "type") == kind]


def _response(thread: Thread, line: JsonObject) -> None:
    """The blocks of a line. Its usage is that of the whole response, which other lines have, too."""
    name = text(line, "message.id") or text(line, "uuid")
    usage = object_of(member(line, "message.usage"))
    blocks, counts = members(line, "message.content"), read_usage(usage) if usage else None
    thread.take_response(name, text(line, "message.model"), blocks, counts)
