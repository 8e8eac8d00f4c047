"""The session files of Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``.

Theory of operation. A line is a message, or a part of one: each block of a response has a line of its own, with the id
and the usage of the response. So a response is what has one id. Every prompt begins a run, and the end of a turn, an
interrupt or the next prompt ends it. The file of a sub-agent is ``<session>/subagents/agent-<id>.jsonl``; what is known
of it, with the call that has begun it, is in ``agent-<id>.meta.json``, which is written before. Older versions have no
such file: the prompt of a sub-agent is that of its call. One whose call is not found is a run of its own in the
conversation of its session.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from rxworker.messages import JsonObject, Message
from rxworker.providers.anthropic.wire import read_usage
from rxworker.tap.sources.claude_session import Call, Calls, ClaudeSession
from rxworker.tap.sources.claude_thread import Thread
from rxworker.tap.sources.session_files import ABOUT
from rxworker.tap.sources.sessions import SessionMapper, labels_of
from rxworker.tap.sources.values import member, members, object_of, stop_of, text, text_of

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
