"""The session files of Claude Code: ``~/.claude/projects/<folder>/<session>.jsonl``.

Theory of operation. A line is a message, or a part of one: each block of a response has a line of its own, with the id
and the usage of the response. So a response is what has one id. Every prompt begins a run, and the end of a turn, an
interrupt or the next prompt ends it. All events of a run come from one file, so that they are the same ones whenever
the files are read again. A sub-agent with a file of its own, which may go on after its call has ended, is a run of its
own in the conversation of its session; one within the file of the session (older versions) is a run inside its call.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, field

from rxworker.messages import JsonObject, Message
from rxworker.messages.usage import Usage, less
from rxworker.providers.anthropic.wire import read_usage
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.sessions import Session, SessionMapper, labels_of
from rxworker.tap.sources.values import json_of, kind_of, member, members, object_of, stop_of, text, text_of

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
        calls: The prompts of its calls without a result, by their ids: sub-agents are found by them.
    """

    run: RunBuilder
    response: str = ""
    usage: Usage | None = None
    counted: Usage | None = None
    is_whole: bool = True
    calls: dict[str, str] = {}

    def take_results(self, results: Sequence[object]) -> None:
        """Take the results of calls; those of other calls are left out."""
        for each in results:
            name = text(each, "tool_use_id")
            if name in self.calls and self.run.status != "over":
                del self.calls[name]
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
                call, arguments = text(each, "id"), json_of(object_of(member(each, "input")))
                run.call(call, text(each, "name"), arguments)
                self.calls[call] = text(arguments.get("prompt"))
        if usage is not None and usage != known:
            run.usage(less(usage, self.counted))


class _Session(Session):
    """A session, or a sub-agent with a file of its own.

    Attributes:
        is_agent: Whether it is such a sub-agent.
        main: What runs.
        inside: The sub-agents in the file of the session, by their calls.
        roots: The calls of the lines of sub-agents, by the ids of the lines.
        notes: Messages of the program since the last run, with which it may go on by itself.
    """

    is_agent: bool = False
    main: Thread = field(default_factory=lambda: Thread(RunBuilder()))
    inside: dict[str, Thread] = field(default_factory=dict[str, Thread])
    roots: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[Message] = field(default_factory=list[Message])

    def proceed(self, line: JsonObject, *given: Message) -> None:
        """Begin another run."""
        self.begin(str(line.get("uuid"))[:8], *given)
        self.main, self.notes, self.inside, self.roots = Thread(self.run), [], {}, {}


class ClaudeCode(SessionMapper[_Session]):
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

    NAME = "claude-code"
    FOLDER = "~/.claude/projects"

    def _session(self, path: str, line: JsonObject) -> _Session | None:
        if line.get("type") not in ("user", "assistant", "system"):
            return None
        file = Path(path).stem
        name, is_agent = str(line.get("sessionId") or file), file.startswith(AGENT)
        key = f"{name}-{file}" if is_agent else name
        if key not in self._sessions:
            self._sessions[key] = _Session(self._name, key, labels_of(name, line.get("cwd")), is_agent=is_agent)
        return self._sessions[key]

    def _take(self, session: _Session, line: JsonObject) -> None:
        if line.get("isSidechain") is True and not session.is_agent:
            self._inside(session, line)
        elif line["type"] == "user":
            self._user(session, line)
        elif line["type"] == "assistant":
            self._assistant(session, line)
        elif session.run.status == "running":
            self._system(session.main, line)

    def _user(self, session: _Session, line: JsonObject) -> None:
        given, run = text_of(member(line, "message.content")), session.run
        message = Message.user(given)
        if results := _blocks(line, "tool_result"):
            session.main.take_results(results)
        elif given.startswith(INTERRUPTED):
            run.abort("it was interrupted by the user", "cancel") if run.status == "running" else None
        elif line.get("isCompactSummary") is True:
            session.earlier.replace(message)
        elif line.get("forkedFrom"):  # a copy of what another session has
            session.earlier.add(message)
        elif line.get("isMeta") is not True and not given.startswith(COMMANDS):
            session.proceed(line, message)
        elif run.status == "running":
            run.add(message)
        else:
            session.notes.append(message)

    def _assistant(self, session: _Session, line: JsonObject) -> None:
        said, stop = text_of(member(line, "message.content")), member(line, "message.stop_reason")
        if line.get("isApiErrorMessage") is True:
            if session.run.status == "running":
                session.run.fail(said, text(line, "error") or None)
                session.run.abort(said)
            return
        is_last = session.main.response == member(line, "message.id")
        if (is_last and session.run.status == "over") or member(line, "message.model") == SYNTHETIC:
            return
        is_copy = bool(line.get("forkedFrom"))
        if not is_copy and session.run.status != "running":  # the program goes on by itself
            session.proceed(line, *session.notes)
        session.earlier.add(Message.assistant(said))
        if is_copy:
            return
        _response(session.main, line)
        if stop in ENDS and len(_blocks(line, "thinking")) < len(members(line, "message.content")):
            session.run.respond(stop_of(stop))
            session.run.end()

    def _system(self, thread: Thread, line: JsonObject) -> None:
        if line.get("subtype") == "api_error":
            thread.run.retract(text(line, "error.formatted") or text(line, "error.message") or "error")
            thread.response = ""
        elif line.get("subtype") == "compact_boundary":
            thread.run.custom("claude_code.compact", object_of(line.get("compactMetadata")))
        elif line.get("subtype") == "turn_duration":
            thread.run.end()

    def _inside(self, session: _Session, line: JsonObject) -> None:
        """A line of a sub-agent in the file of the session."""
        main = session.main
        if main.run.status != "running" or not main.calls:
            return
        given = text_of(member(line, "message.content"))
        call = session.roots.get(text(line.get("parentUuid")), "")
        if call not in main.calls:  # its first line: it has the prompt of its call
            free = [name for name in main.calls if name not in session.inside] or [*main.calls]
            call = next((name for name in free if main.calls[name] == given), free[-1])
        session.roots[text(line.get("uuid"))] = call
        run, main.is_whole = main.run.inside(call), True
        thread = session.inside.setdefault(call, Thread(run))
        if results := _blocks(line, "tool_result"):
            thread.take_results(results)
        elif line["type"] == "assistant":
            _response(thread, line)
        elif line["type"] == "user":
            run.start(given)


def _blocks(line: JsonObject, kind: str) -> list[object]:
    return [each for each in members(line, "message.content") if member(each, "type") == kind]


def _response(thread: Thread, line: JsonObject) -> None:
    """The blocks of a line. Its usage is that of the whole response, which other lines have, too."""
    name = text(line, "message.id") or text(line, "uuid")
    usage = object_of(member(line, "message.usage"))
    blocks, counts = members(line, "message.content"), read_usage(usage) if usage else None
    thread.take_response(name, text(line, "message.model"), blocks, counts)
