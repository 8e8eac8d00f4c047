"""The session files of Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``.

Theory of operation. A line is a message, or a part of one: each block of a response has a line of its own, with the id
and the usage of the response. So a response is what has one id. Every prompt begins a run, and the end of a turn, an
interrupt or the next prompt ends it. All events of a run come from one file, so that they are the same ones whenever
the files are read again. A sub-agent with a file of its own, which may go on after its call has ended, is a run of its
own in the conversation of its session; one within the file of the session (older versions) is a run inside its call.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from rxworker.log.values import CONVERSATION
from rxworker.messages import JsonObject, Message
from rxworker.messages.usage import Usage, less
from rxworker.providers.anthropic.wire import read_usage
from rxworker.tap.builder import RunBuilder, Tapped
from rxworker.tap.sources.session_files import Earlier, object_of, read_line, text_of, time_of
from rxworker.tap.sources.values import json_of, member, members, stop_of, text

AGENT = "agent-"
"""The beginning of the name of the file of a sub-agent."""
INTERRUPTED = "[Request interrupted by user"
COMMANDS = ("<command-name>", "<command-message>", "<local-command-", "<bash-")
"""The beginnings of what is noted of a command of the program itself."""
SYNTHETIC = "<synthetic>"
"""The model of messages that no model has written."""
ENDS = ("end_turn", "stop_sequence", "max_tokens", "refusal")


class Thread(Struct):
    """What writes responses one after the other: a run, or a sub-agent inside a call.

    Attributes:
        run: Its builder.
        response: The id of its last response.
        usage: What that took.
        counted: The part of it that another response of the run has.
        is_whole: Whether the response has ended.
        calls: The times of its calls without a result, by their ids.
        prompts: The prompts of its calls, by which sub-agents are found.
    """

    run: RunBuilder
    response: str = ""
    usage: Usage | None = None
    counted: Usage | None = None
    is_whole: bool = True
    calls: dict[str, float | None] = field(default_factory=dict[str, float | None])
    prompts: dict[str, str] = field(default_factory=dict[str, str])


class _Session(Struct):
    """A session, or a sub-agent with a file of its own.

    Attributes:
        key: What the names of its runs begin with.
        labels: The labels of its runs.
        earlier: The conversation before the next run.
        main: What runs; ``None`` before the first prompt.
        inside: The sub-agents in the file of the session, by their calls.
        roots: The calls of the lines of sub-agents, by the ids of the lines.
        notes: Messages of the program since the last run, with which it may go on by itself.
        ended: The last events of the run before.
    """

    key: str
    labels: dict[str, str]
    earlier: Earlier = field(default_factory=Earlier)
    main: Thread | None = None
    inside: dict[str, Thread] = field(default_factory=dict[str, Thread])
    roots: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[Message] = field(default_factory=list[Message])
    ended: list[Tapped] = field(default_factory=list[Tapped])


class ClaudeCode:
    """Makes runs of the lines of `session_files`: a mapper for `rxworker.tap.tap_each`.

    Each prompt is a run, named by the session and the prompt; a sub-agent with a file of its own is one, too. They have
    the session as their ``conversation``, and the name of the folder as their ``project``. Costs are those of the table
    of models. Not in the files: the system prompt, the parts of a response as they are written, the service, and how
    long a call waited for a permission within the time of its tool.

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

    FOLDER = "~/.claude/projects"

    def __init__(self, name: str = "claude-code") -> None:
        self._name = name
        self._sessions: dict[str, _Session] = {}

    def feed(self, item: tuple[str, str], /) -> Sequence[Tapped]:
        """The events of a line."""
        path, written = item
        line = read_line(path, written)
        if line is None or line.get("type") not in ("user", "assistant", "system"):
            return ()
        session = self._session(path, line)
        is_inside = line.get("isSidechain") is True and not Path(path).stem.startswith(AGENT)
        if session.main is not None:
            session.main.run.time = time_of(line.get("timestamp"))
        if is_inside:
            self._inside(session, line)
        elif line["type"] == "user":
            self._user(session, line)
        elif line["type"] == "assistant":
            self._assistant(session, line)
        else:
            self._system(session, line)
        before, session.ended = session.ended, []
        return before if session.main is None else before + session.main.run.take()

    def finish(self, error: Exception | None = None, /) -> Sequence[Tapped]:  # noqa: ARG002 - as a mapper has it
        """Nothing: a session has no end."""
        return ()

    def _session(self, path: str, line: JsonObject) -> _Session:
        file = Path(path).stem
        name = str(line.get("sessionId") or file)
        key = f"{name}-{file}" if file.startswith(AGENT) else name
        known = self._sessions.get(key)
        if known is None:
            labels = {CONVERSATION: name, "project": Path(str(line.get("cwd") or "")).name}
            known = self._sessions[key] = _Session(key, {name: text for name, text in labels.items() if text})
        return known

    def _begin(self, session: _Session, line: JsonObject, *given: Message) -> Thread:
        """Another run, which ends the one before it."""
        if session.main is not None:
            session.main.run.end()
            session.ended += session.main.run.take()
        thread = session.main = Thread(RunBuilder(self._name, f"{session.key}-{str(line.get('uuid'))[:8]}"))
        thread.run.time = time_of(line.get("timestamp"))
        thread.run.start(given or None, before=session.earlier.conversation(), labels=session.labels)
        for message in given:
            session.earlier.add(message)
        session.notes, session.inside, session.roots = [], {}, {}
        return thread

    def _user(self, session: _Session, line: JsonObject) -> None:
        thread = session.main
        results = _blocks(line, "tool_result")
        if results:
            if thread is not None:
                take_results(thread, results)
            return
        given = text_of(member(line, "message.content"))
        message = Message.user(given)
        if given.startswith(INTERRUPTED):
            if thread is not None:
                thread.run.abort("it was interrupted by the user", "cancel")
        elif line.get("isCompactSummary") is True:
            session.earlier.replace(message)
        elif line.get("forkedFrom"):  # a copy of what another session has
            session.earlier.add(message)
        elif line.get("isMeta") is not True and not given.startswith(COMMANDS):
            self._begin(session, line, message)
        elif thread is not None and not thread.run.is_over:
            thread.run.add(message)
        else:
            session.notes.append(message)

    def _assistant(self, session: _Session, line: JsonObject) -> None:
        thread = session.main
        said = text_of(member(line, "message.content"))
        name, stop = member(line, "message.id"), member(line, "message.stop_reason")
        if line.get("isApiErrorMessage") is True:
            if thread is not None and not thread.run.is_over:
                thread.run.fail(said, text(line.get("error")) or None)
                thread.run.abort(said)
            return
        is_known = thread is not None and thread.run.is_over and thread.response == name  # and has ended its run
        if is_known or member(line, "message.model") == SYNTHETIC:
            return
        is_copy = bool(line.get("forkedFrom"))
        if not is_copy and (thread is None or thread.run.is_over):  # the program goes on by itself
            thread = self._begin(session, line, *session.notes)
        session.earlier.add(Message.assistant(said))
        if is_copy or thread is None:
            return
        _response(thread, line)
        if stop in ENDS and len(_blocks(line, "thinking")) < len(members(line, "message.content")):
            thread.run.respond(stop_of(stop))
            thread.run.end()

    def _system(self, session: _Session, line: JsonObject) -> None:
        thread = session.main
        if thread is None or thread.run.is_over:
            return
        if line.get("subtype") == "api_error":
            thread.run.retract(text(member(line, "error.formatted")) or text(member(line, "error.message")) or "error")
            thread.response = ""
        elif line.get("subtype") == "compact_boundary":
            thread.run.custom("claude_code.compact", object_of(line.get("compactMetadata")))
        elif line.get("subtype") == "turn_duration":
            thread.run.end()

    def _inside(self, session: _Session, line: JsonObject) -> None:
        """A line of a sub-agent in the file of the session."""
        main = session.main
        if main is None or main.run.is_over or not main.calls:
            return
        given = text_of(member(line, "message.content"))
        call = session.roots.get(text(line.get("parentUuid")), "")
        if call not in main.calls:  # its first line: it has the prompt of its call
            free = [name for name in main.calls if name not in session.inside] or [*main.calls]
            call = next((name for name in free if main.prompts.get(name) == given), free[-1])
        session.roots[text(line.get("uuid"))] = call
        run, main.is_whole = main.run.inside(call), True
        thread = session.inside.setdefault(call, Thread(run))
        if results := _blocks(line, "tool_result"):
            take_results(thread, results)
        elif line["type"] == "assistant":
            _response(thread, line)
        elif line["type"] == "user":
            run.start(given)


def _blocks(line: JsonObject, kind: str) -> list[object]:
    return [each for each in members(line, "message.content") if member(each, "type") == kind]


def _response(thread: Thread, line: JsonObject) -> None:
    """The blocks of a line. Its usage is that of the whole response, which other lines have, too."""
    name = text(member(line, "message.id")) or text(line.get("uuid"))
    blocks, usage = members(line, "message.content"), object_of(member(line, "message.usage"))
    take_response(thread, name, text(member(line, "message.model")), blocks, usage)


def kind_of(block: object) -> str:
    """The type of a block: of JSON, or of a class such as ``TextBlock``."""
    named = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(block).__name__).lower().removesuffix("_block")
    return text(member(block, "type")) or named


def take_results(thread: Thread, results: Sequence[object]) -> None:
    """The results of calls; those of other calls are left out."""
    for each in results:
        name, now = text(member(each, "tool_use_id")), thread.run.time
        if name in thread.calls and not thread.run.is_over:
            began = thread.calls.pop(name)
            seconds = now - began if now is not None and began is not None else None
            content, is_error = text_of(member(each, "content")), member(each, "is_error") is True
            thread.run.tool_stop(name, content, is_error=is_error, seconds=seconds)
            thread.is_whole = True


def take_response(thread: Thread, name: str, model: str, blocks: Sequence[object], usage: JsonObject) -> None:
    """Blocks of a response, and what it took so far."""
    run, is_same = thread.run, thread.response == name
    if not is_same or thread.is_whole:  # or the result of a call came between two of its parts
        run.request(model, "anthropic", name)
        thread.counted = thread.usage if is_same else None
    thread.response, thread.is_whole = name, False
    for each in blocks:
        kind = kind_of(each)
        if kind == "text":
            run.text(text(member(each, "text")), object())  # a block of its own
        elif kind == "thinking":
            run.thinking(text(member(each, "thinking")), object())
        elif kind == "tool_use":
            call, arguments = text(member(each, "id")), json_of(object_of(member(each, "input")))
            run.call(call, text(member(each, "name")), arguments)
            thread.calls[call], thread.prompts[call] = run.time, text(arguments.get("prompt"))
    take_usage(thread, usage, None if not is_same else thread.usage)


def take_usage(thread: Thread, usage: JsonObject, known: Usage | None) -> None:
    """What the response took so far, unless it is what is known."""
    thread.usage = read_usage(usage) if usage else known
    if thread.usage is not None and thread.usage != known:
        thread.run.usage(less(thread.usage, thread.counted))
