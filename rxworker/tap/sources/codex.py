"""The session files of Codex: ``~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl``.

Theory of operation. A line has a type and a payload. What the model wrote and the results of its calls are
``response_item`` lines, each one whole; other lines with the same texts are left out. The tokens of a response come in
a line of their own: ``token_usage_record`` at its end, or, in older versions, ``token_count`` before its items or after
the results of its calls, which wait for it, and with the total of the session, by which a repetition is known. A
message of the user begins a run. A sub-agent has a file of its own, and is in the conversation of the session that has
begun it.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import field

from rxworker.messages import Json, JsonObject, Message
from rxworker.messages.usage import Usage
from rxworker.tap.sources.session_files import Session, SessionMapper, labels_of
from rxworker.tap.sources.values import count, decoded, member, members, object_of, text, text_of, usage_of

CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
FAULTS = ("turn_aborted", "error", "stream_error")
STARTS, ENDS = ("task_started", "turn_started"), ("task_complete", "turn_complete")
EXIT = re.compile(r"(?:Exit code:|Process exited with code) (-?\d+)")


class _Session(Session):
    """A file.

    Attributes:
        provider: The provider of its model.
        model: Its model.
        number: How many runs have begun.
        in_task: Whether a task goes on, to which a message of the user is added.
        is_counted: Whether the tokens of the response are known.
        has_records: Whether each response has a line with its tokens.
        total: The tokens of the session so far.
        given: The text of the last message of the user, until the model answers.
        calls: The calls without a result.
        ran: The exit codes and the seconds of commands, by their calls.
        held: The results of calls that wait for the tokens of their response, and when they came.
    """

    provider: str = ""
    model: str = ""
    number: int = 0
    in_task: bool = False
    is_counted: bool = False
    has_records: bool = False
    total: Usage | None = None
    given: str | None = None
    calls: set[str] = field(default_factory=set[str])
    ran: dict[str, tuple[object, float | None]] = field(default_factory=dict[str, tuple[object, float | None]])
    held: list[tuple[float | None, str, Json]] = field(default_factory=list[tuple[float | None, str, Json]])

    def proceed(self, *given: Message) -> None:
        """Begin another run."""
        self.number += 1
        self.calls = set()
        self.begin(str(self.number), *given)

    def respond(self) -> None:
        """Begin another response."""
        self.run.request(self.model, self.provider, since=self.run.last)
        self.is_counted = False


class Codex(SessionMapper[_Session]):
    """Makes runs of the lines of `session_files`: a mapper for `rxworker.tap.tap_each`.

    Each message of the user is a run, named by the session and its number, unless it was added to a task that went on.
    The runs have the session as their ``conversation``, and the name of the folder as their ``project``. Costs are
    those of the table of models. A command has failed if its exit code is not 0. Not in the files: the parts of a
    response as they are written, reasoning but for its summaries, and what the service itself searches or draws but for
    its name, which is a custom event.

    Args:
        name: The name of the program in lists.

    Example:
        >>> mapper = Codex()
        >>> lines = [
        ...     '{"type":"session_meta","payload":{"id":"s"}}',
        ...     '{"type":"event_msg","payload":{"type":"user_message","message":"Hello"}}',
        ...     '{"type":"response_item","payload":{"type":"message","role":"assistant",'
        ...     '"content":[{"type":"output_text","text":"Hi."}]}}',
        ...     '{"type":"event_msg","payload":{"type":"task_complete"}}',
        ... ]
        >>> events = [each for line in lines for each in mapper.feed(("rollout-s.jsonl", line))]
        >>> events[0].run, type(events[-1].event).__name__
        ('s-1', 'RunStop')
    """

    NAME = "codex"
    FOLDER = "~/.codex/sessions"

    def _session(self, path: str, line: JsonObject) -> _Session | None:
        if line and path not in self._sessions:
            meta = object_of(line.get("payload")) if line.get("type") == "session_meta" else {}
            key = text(meta, "id") or Path(path).stem
            outer = text(meta, "parent_thread_id") or text(meta, "source.subagent.thread_spawn.parent_thread_id")
            labels, provider = labels_of(outer or key, meta.get("cwd")), text(meta, "model_provider")
            self._sessions[path] = _Session(self._name, key, labels, provider=provider)
        return self._sessions.get(path)

    def _take(self, session: _Session, line: JsonObject) -> None:
        kind, payload = line.get("type"), object_of(line.get("payload"))
        if kind == "turn_context":
            session.model = text(payload, "model") or session.model
        elif kind == "response_item":
            self._item(session, payload)
        elif kind == "token_usage_record":
            session.has_records = True
            _count(session, usage_of(payload.get("usage")))
        elif kind == "compacted":
            session.earlier.replace(Message.user(text(payload, "message")))
            session.run.custom("codex.compact", {}) if session.run.status == "running" else None
        elif kind == "event_msg":
            self._event(session, payload)

    def _event(self, session: _Session, payload: JsonObject) -> None:
        kind, item = payload.get("type"), member(payload, "item.type")
        if kind == "token_count":
            total = usage_of(member(payload, "info.total_token_usage"))
            is_known = total is not None and total == session.total
            session.total = total or session.total
            if not is_known and not session.has_records:
                _count(session, usage_of(member(payload, "info.last_token_usage")))
        elif kind == "user_message" or item == "UserMessage":
            self._user(session, text(payload, "message") or text_of(member(payload, "item.content")))
        elif item == "CommandExecution":
            whole, nanos = count(payload, "item.duration.secs"), count(payload, "item.duration.nanos")
            seconds = None if whole is None else whole + (nanos or 0) / 1e9
            session.ran[text(payload, "item.id")] = member(payload, "item.exit_code"), seconds
        elif kind in STARTS or kind in ENDS:
            _flush(session)
            session.in_task = kind in STARTS
            session.run.end()  # a task before it may be without an end of its own
        elif kind in FAULTS and session.run.status == "running":
            _flush(session)
            reason = text(payload, "reason") or text(payload, "message") or "error"
            if kind == "stream_error":
                session.run.retract(reason)
            elif kind == "error":
                session.run.fail(reason)
                session.run.abort(reason)
            else:
                session.in_task = False
                session.run.abort(reason, "cancel" if reason == "interrupted" else "abort")

    def _user(self, session: _Session, given: str) -> None:
        _flush(session)
        is_added = session.in_task and session.run.status == "running"
        if is_added and given == session.given:
            return  # some versions have two lines for it
        session.given = given
        if is_added:
            session.run.add(Message.user(given))
        else:
            session.proceed(Message.user(given))

    def _item(self, session: _Session, payload: JsonObject) -> None:
        kind, name = payload.get("type"), text(payload, "call_id") or text(payload, "id")
        if kind in OUTPUTS:
            if name in session.calls and session.run.status != "over":
                session.held.append((session.run.time, name, payload.get("output")))
                _flush(session) if session.is_counted else None
            return
        _flush(session)
        is_given = kind == "message" and payload.get("role") != "assistant"
        if is_given or not (session.in_task or session.run.status == "running"):
            return
        if session.run.status != "running":
            session.proceed()
        run, session.given = session.run, None
        if not run.is_responding:
            session.respond()
        if kind == "message":
            said = text_of(payload.get("content"))
            run.text(said, object())
            session.earlier.add(Message.assistant(said))
        elif kind == "reasoning":
            parts = [text_of([each]) for each in members(payload, "summary")]
            run.thinking(text_of(payload.get("content")) or "\n\n".join(parts), object())
        elif kind in CALLS:
            written = text(payload, "arguments") or text(payload, "input")
            run.call(name, text(payload, "name") or "local_shell", written or object_of(payload.get("action")))
            session.calls.add(name)
        else:
            run.custom(f"codex.{kind}", {})


def _count(session: _Session, usage: Usage | None) -> None:
    if usage is None or session.run.status != "running":
        return
    if not session.run.is_responding or session.is_counted:
        session.respond()
    session.run.usage(usage)
    session.is_counted = True
    _flush(session)


def _flush(session: _Session) -> None:
    """The results that have waited for the tokens of their response."""
    held, session.held, now = session.held, [], session.run.time
    for time, name, output in held:
        session.run.time = time
        _output(session, name, output)
    session.run.time = now


def _output(session: _Session, name: str, output: Json) -> None:
    """The result of a call: a text, content, or, in older versions, JSON with the exit code of a command."""
    content = text_of(object_of(output).get("content", output))
    about = object_of(decoded(content)) if content.startswith('{"output"') else {}
    found = EXIT.search(content[:200])
    code, seconds = session.ran.pop(name, (member(about, "metadata.exit_code"), None))
    code = int(found[1]) if code is None and found else code
    content = text(about.get("output")) if about else content
    is_error = code not in (None, 0) or object_of(output).get("success") is False
    session.calls.discard(name)
    session.run.tool_stop(name, content, is_error=is_error, seconds=seconds)
