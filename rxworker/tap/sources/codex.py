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
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct, field

from rxworker.log.values import CONVERSATION
from rxworker.messages import Json, JsonObject, Message
from rxworker.messages.usage import Usage
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.session_files import Earlier, object_of, read_line, text_of, time_of
from rxworker.tap.sources.values import member, members, text, usage_of

CALLS = ("function_call", "custom_tool_call", "local_shell_call")
OUTPUTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")
FAULTS = ("turn_aborted", "error", "stream_error")
STARTS, ENDS = ("task_started", "turn_started"), ("task_complete", "turn_complete")
EXIT = re.compile(r"(?:Exit code:|Process exited with code) (-?\d+)")


class _Session(Struct):
    """A file.

    Attributes:
        key: The id of the session.
        labels: The labels of its runs.
        provider: The provider of its model.
        model: Its model.
        number: How many runs have begun.
        run: The last one.
        in_task: Whether a task goes on, to which a message of the user is added.
        in_response: Whether a response goes on.
        is_counted: Whether its tokens are known.
        has_records: Whether each response has a line with its tokens.
        total: The tokens of the session so far.
        given: The text of the last message of the user, until the model answers.
        calls: The times of the calls without a result, by their ids.
        ran: The exit codes and the seconds of commands, by their calls.
        held: The results of calls that wait for the tokens of their response, and when they came.
        earlier: The conversation before the next run.
    """

    key: str
    labels: dict[str, str]
    provider: str = ""
    model: str = ""
    number: int = 0
    run: RunBuilder = field(default_factory=RunBuilder)
    in_task: bool = False
    in_response: bool = False
    is_counted: bool = False
    has_records: bool = False
    total: Usage | None = None
    given: str | None = None
    calls: dict[str, float | None] = field(default_factory=dict[str, float | None])
    ran: dict[str, tuple[object, float | None]] = field(default_factory=dict[str, tuple[object, float | None]])
    held: list[tuple[float | None, str, Json]] = field(default_factory=list[tuple[float | None, str, Json]])
    earlier: Earlier = field(default_factory=Earlier)


class Codex:
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

    FOLDER = "~/.codex/sessions"

    def __init__(self, name: str = "codex") -> None:
        self._name = name
        self._sessions: dict[str, _Session] = {}

    def feed(self, item: tuple[str, str], /) -> Sequence[Tapped]:
        """The events of a line."""
        path, written = item
        line = read_line(path, written)
        if line is None:
            return ()
        kind, payload = line.get("type"), object_of(line.get("payload"))
        session = self._sessions.get(path)
        if session is None:
            session = self._sessions[path] = _session(path, payload if kind == "session_meta" else {})
        session.run.time = time_of(line.get("timestamp"))
        before: list[Tapped] = []
        if kind == "turn_context":
            session.model = text(payload.get("model")) or session.model
        elif kind == "response_item":
            self._item(session, payload)
        elif kind == "token_usage_record":
            session.has_records = True
            self._count(session, _tokens(payload.get("usage")))
        elif kind == "compacted":
            session.earlier.replace(Message.user(text(payload.get("message"))))
            if not session.run.is_over and not session.run.is_new:
                session.run.custom("codex.compact", {})
        elif kind == "event_msg":
            before = self._event(session, payload)
        return [*before, *session.run.take()]

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:  # noqa: ARG002 - as a mapper has it
        """Nothing: a session has no end."""
        return ()

    def _begin(self, session: _Session, *given: Message) -> list[Tapped]:
        """Another run, which ends the one before it: the last events of that."""
        session.run.end()
        ended, time = session.run.take(), session.run.time
        session.number += 1
        session.run = RunBuilder(self._name, f"{session.key}-{session.number}")
        session.run.time = time
        session.run.start(given or None, before=session.earlier.conversation(), labels=session.labels)
        session.in_response, session.calls = False, {}
        for message in given:
            session.earlier.add(message)
        return ended

    def _event(self, session: _Session, payload: JsonObject) -> list[Tapped]:
        kind, item, run = payload.get("type"), member(payload, "item.type"), session.run
        if kind == "token_count":
            self._count_total(session, payload)
        elif kind == "user_message":
            return self._user(session, text(payload.get("message")))
        elif item == "UserMessage":
            return self._user(session, text_of(member(payload, "item.content")))
        elif item == "CommandExecution":
            code, duration = member(payload, "item.exit_code"), member(payload, "item.duration")
            session.ran[text(member(payload, "item.id"))] = code, _seconds(duration)
        elif kind in STARTS:
            _flush(session)
            session.in_task = True
            run.end()  # without an end of its own
        elif kind in ENDS:
            _flush(session)
            session.in_task = False
            run.end()
        elif kind in FAULTS and not run.is_over and not run.is_new:
            _flush(session)
            _fault(session, kind, text(payload.get("reason")) or text(payload.get("message")) or "error")
        return []

    def _user(self, session: _Session, given: str) -> list[Tapped]:
        _flush(session)
        is_running = session.in_task and not session.run.is_over and not session.run.is_new
        if is_running and given == session.given:
            return []  # some versions have two lines for it
        session.given = given
        if not is_running:
            return self._begin(session, Message.user(given))
        session.run.add(Message.user(given))
        session.in_response = False
        return []

    def _count_total(self, session: _Session, payload: JsonObject) -> None:
        total = _tokens(member(payload, "info.total_token_usage"))
        is_known = total is not None and total == session.total
        session.total = total or session.total
        if not is_known and not session.has_records:
            self._count(session, _tokens(member(payload, "info.last_token_usage")))

    def _count(self, session: _Session, usage: Usage | None) -> None:
        if usage is None or session.run.is_over or session.run.is_new:
            return
        if not session.in_response or session.is_counted:
            self._respond(session)
        session.run.usage(usage)
        session.is_counted = True
        _flush(session)

    def _respond(self, session: _Session) -> None:
        session.run.request(session.model, session.provider)
        session.in_response, session.is_counted = True, False

    def _item(self, session: _Session, payload: JsonObject) -> None:
        kind, run = payload.get("type"), session.run
        name = text(payload.get("call_id")) or text(payload.get("id"))
        if kind in OUTPUTS:
            if name in session.calls and not run.is_over:
                session.held.append((run.time, name, payload.get("output")))
                _flush(session) if session.is_counted else None
            return
        _flush(session)
        is_message = kind == "message"
        if is_message and payload.get("role") != "assistant":
            return
        if run.is_over or run.is_new:
            if not session.in_task:
                return
            self._begin(session)
            run = session.run
        session.given = None
        if not session.in_response:
            self._respond(session)
        if is_message:
            said = text_of(payload.get("content"))
            run.text(said, object())
            session.earlier.add(Message.assistant(said))
        elif kind == "reasoning":
            thought = text_of(payload.get("content")) or "\n\n".join(map(text_of, _each(payload.get("summary"))))
            run.thinking(thought, object())
        elif kind in CALLS:
            written = text(payload.get("arguments")) or text(payload.get("input"))
            run.call(name, text(payload.get("name")) or "local_shell", written or object_of(payload.get("action")))
            session.calls[name] = run.time
        else:
            run.custom(f"codex.{kind}", {})


def _each(value: object) -> list[list[object]]:
    return [[each] for each in members({"items": value}, "items")]


def _session(path: str, meta: JsonObject) -> _Session:
    key = text(meta.get("id")) or Path(path).stem
    outer = text(meta.get("parent_thread_id")) or text(member(meta, "source.subagent.thread_spawn.parent_thread_id"))
    labels = {CONVERSATION: outer or key, "project": Path(text(meta.get("cwd"))).name}
    known = {name: value for name, value in labels.items() if value}
    return _Session(key, known, text(meta.get("model_provider")))


def _tokens(counts: object) -> Usage | None:
    return usage_of(
        counts,
        "input_tokens",
        "output_tokens",
        cache_read="cached_input_tokens",
        cache_creation="cache_write_input_tokens",
        reasoning="reasoning_output_tokens",
    )


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
    try:
        about = object_of(msgspec.json.decode(content) if content.startswith('{"output"') else None)
    except msgspec.DecodeError:
        about = {}
    found = EXIT.search(content[:200])
    code, seconds = session.ran.pop(name, (member(about, "metadata.exit_code"), None))
    code = int(found[1]) if code is None and found else code
    content = text(about.get("output")) if about else content
    is_error = code not in (None, 0) or object_of(output).get("success") is False
    began, now = session.calls.pop(name, None), session.run.time
    if seconds is None:
        seconds = now - began if now is not None and began is not None else 0.0
    session.run.tool_stop(name, content, is_error=is_error, seconds=seconds)
    session.in_response = False


def _fault(session: _Session, kind: object, reason: str) -> None:
    session.in_response = False
    if kind == "stream_error":
        session.run.retract(reason)
    elif kind == "error":
        session.run.fail(reason)
        session.run.abort(reason)
    else:
        session.in_task = False
        session.run.abort(reason, "cancel" if reason == "interrupted" else "abort")


def _seconds(duration: object) -> float | None:
    """A duration as Codex writes it: seconds and nanoseconds."""
    seconds, nanos = member(duration, "secs"), member(duration, "nanos")
    return seconds + nanos / 1e9 if isinstance(seconds, int) and isinstance(nanos, int) else None
