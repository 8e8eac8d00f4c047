"""The exception tree. The message of an error states what happened; its attributes state what the caller can do.

RxWorkerError
├── LocalProtocolError        we were used wrongly
│   ├── ConfigurationError    a key, a URL or a name is missing or wrong
│   │   └── InputRefusedError ``map_input`` of the worker, or the gate of a server, has not accepted an input
│   ├── SessionBusyError      a second run while one is on
│   └── DecisionError         a decision about a pending call cannot be read, or does not fit it
├── RemoteProtocolError       they sent what the protocol does not allow
│   └── TruncatedError        the stream ended before its terminal event
├── TransportError            the connection could not be made or broke
│   ├── TransportTimeoutError
│   └── HttpStatusError       the server answered with something that is not a stream
├── ProviderError             the provider refused or failed
├── ToolError
│   ├── InvalidArgumentError  the model's arguments do not fit the signature
│   ├── ExecutionFailedError  the tool raised
│   └── ToolTimeoutError
├── TextRejectedError         the check of `hold_back` rejected a text
├── HookError                 a hook raised, timed out, or gave a verdict its point does not have
├── LogError                  an event log could not be read or written
│   ├── FencedError           another owner has taken the run over
│   ├── LeaseHeldError        another owner holds the run
│   ├── RunStatusError        the run has ended, or its status does not allow this
│   └── CommandConflictError  the same decision was made before
└── WorkerError
    ├── RunAbortedError       a hook ended the run
    ├── RunCancelledError     ``run.cancel()``
    ├── LimitExceededError    a limit of the run was reached
    └── RunHandedOverError    ``run.hand_over()``: another process continues the run
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from copy import copy
from types import FunctionType, TracebackType
from typing import Literal

from rxworker.redact import without_secrets

# The page in which the remedy stands, by the module that raises: the longest name counts, and a module without a page
# leaves it to its caller.
_PAGES = {
    "adapters": "reference/protocols",
    "adapters.mcp": "mcp",
    "adapters.opentelemetry": "opentelemetry",
    "boards": "dashboards",
    "boards.panel": "reference/boards",
    "decisions": "reference/worker",
    "hooks": "hooks",
    "hub": "watch-a-run",
    "log": "reference/log",
    "log.values": "cancel-and-pause",
    "messages": "history",
    "messages.settings": "",
    "messages.usage": "providers-and-keys",
    "operators": "reference/operators",
    "protocols": "reference/protocols",
    "protocols.openai": "openai-clients",
    "providers": "providers-and-keys",
    "providers.content": "history",
    "resume": "reference/worker",
    "run": "reference/worker",
    "run.run": "cancel-and-pause",
    "testing": "test-your-worker",
    "timeline": "reference/streams",
    "tools": "tools",
    "tools.base": "reference/tools",
    "tools.mcp_connection": "mcp",
    "tools.run": "reference/tools",
    "transport": "errors-and-retries",
    "transport.client": "reference/limits",
    "transport.gemini_cache": "reference/client",
    "transport.websocket": "reference/client",
    "turn": "reference/worker",
    "turn.limits": "reference/limits",
    "ui": "serve",
    "ui.terminal": "terminal-app",
    "ui.web": "reference/web-server",
    "worker": "reference/worker",
    "worker.inputs": "cancel-and-pause",
}


class RxWorkerError(Exception):
    """The base of every error that rxworker raises. Its last line in a traceback names the page that describes it.

    Attributes:
        page: That page, which ``rxworker docs PAGE`` prints; "" for an error that needs none.
        retryable: Whether the same call may succeed when it is made again.
        retry_after: Seconds to wait before that, if the other side sent it.
        request_id: The provider's name for the request, for its support desk.
    """

    page: str = ""

    def __init__(
        self, message: str, *, retryable: bool = False, retry_after: float | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        if self.page:
            self.add_note(f"More: rxworker docs {self.page}")
        self.message = message
        self.retryable = retryable
        self.retry_after = retry_after
        self.request_id = request_id


class LocalProtocolError(RxWorkerError):
    """The library was used in a way that its rules do not allow.

    Its page is the given one, or that of the module that raises it.
    """

    def __init__(self, message: str, *, page: str = "") -> None:
        self.page = page or self.page or _page_of_caller()
        super().__init__(message)


class ConfigurationError(LocalProtocolError):
    """A key, a URL or a name is missing or cannot be right."""


class InputRefusedError(ConfigurationError):
    """``map_input`` of the worker, or the gate of a server, has not accepted an input.

    Nothing of it is stored or in this text. The exception of the function or the check is its ``__cause__``.
    """

    page = "reference/worker"


class SessionBusyError(LocalProtocolError):
    """A second run of a worker was requested while one is running."""

    page = "reference/worker"


class DecisionError(LocalProtocolError):
    """A decision about a pending call cannot be read, or does not fit the calls that wait.

    Nothing has run, and they still wait.
    """

    page = "cancel-and-pause"


class RemoteProtocolError(RxWorkerError):
    """The other side sent what its protocol does not allow."""

    page = "errors-and-retries"


class TruncatedError(RemoteProtocolError):
    """A stream ended before its terminal event."""


class TransportError(RxWorkerError):
    """A connection could not be made, or broke."""

    page = "errors-and-retries"


class TransportTimeoutError(TransportError):
    """Nothing came within the time allowed: to connect, for the first bytes, or between bytes."""


class HttpStatusError(TransportError):
    """The server answered, but not with a stream: the raw answer, for a provider to explain.

    Attributes:
        status: The HTTP status, for example 429; 200 where the body is not a stream.
        headers: The answer's headers, names in lower case.
        body: The answer's body, at most 64 KiB of it.
        url: The address of the request.
    """

    def __init__(self, message: str, *, status: int, headers: Mapping[str, str], body: bytes, url: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = body
        self.url = url


class ProviderError(RxWorkerError):
    """The provider refused the request, or failed while it answered.

    Attributes:
        kind: The kind of the failure: ``authentication``, ``permission``, ``not_found``, ``invalid_request``,
            ``context_length``, ``rate_limit``, ``quota``, ``overloaded``, ``timeout``, ``server``, ``cancelled``
            or ``unknown``.
        status: The HTTP status; ``None`` when it came inside a stream.
        code: The provider's own word for it, for example ``overloaded_error``.
    """

    page = "errors-and-retries"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "unknown",
        status: int | None = None,
        code: str | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(message, retryable=retryable, retry_after=retry_after, request_id=request_id)
        self.kind = kind
        self.status = status
        self.code = code


class ToolError(RxWorkerError):
    """A tool call failed. The model reads it as an error result; it does not end the run.

    Attributes:
        tool: The tool's name. A tool that raises may leave it out: it is filled in.
    """

    page = "tools#when-it-fails"

    def __init__(self, message: str, *, tool: str = "", retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable)
        self.tool = tool


class InvalidArgumentError(ToolError):
    """The arguments of a call do not fit the tool's signature.

    Attributes:
        path: Where, for example ``$.city``.
    """

    def __init__(self, message: str, *, tool: str = "", path: str = "$") -> None:
        super().__init__(message, tool=tool)
        self.path = path


class ExecutionFailedError(ToolError):
    """The tool raised; the exception is this one's ``__cause__``."""


class ToolTimeoutError(ToolError):
    """The tool took longer than its time-out."""


class TextRejectedError(RxWorkerError):
    """The check of `rxworker.operators.hold_back` rejected a text, and no replacement was given.

    The rejected text is not in the error: errors are logged.
    """

    page = "text"


class HookError(RxWorkerError):
    """A hook raised, took too long, or returned something that its point does not accept.

    Attributes:
        hook: The hook's name.
        point: The hook point, for example ``before_tool_call``.
        kind: ``failure``: it raised or took too long, and its ``on_failure`` applies. ``verdict``: it returned
            something that its point does not accept, which is a mistake in the program and ends the run whatever
            ``on_failure`` is.
    """

    page = "hooks"

    def __init__(self, message: str, *, hook: str, point: str, kind: Literal["failure", "verdict"] = "failure") -> None:
        super().__init__(message)
        self.hook = hook
        self.point = point
        self.kind = kind


class LogError(RxWorkerError):
    """An event log could not be read or written: a full disk, a locked or damaged file, a log of a newer version."""

    page = "reference/log"


class FencedError(LogError):
    """An append was refused: another owner has claimed the run since, or the log has other records.

    Nothing was written.

    Attributes:
        run_id: The run's id.
    """

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class LeaseHeldError(LogError):
    """A run cannot be claimed, since another owner holds it.

    Attributes:
        run_id: The run's id.
        owner: The owner of the lease.
        until: When its lease ends, in seconds since the epoch, unless it is renewed.
    """

    def __init__(self, run_id: str, owner: str, until: float) -> None:
        super().__init__(
            f"{run_id} is held by {owner}: wait until that process has ended and its lease has expired, "
            "or send commands to the run with log.send(...)",
            retryable=True,
        )
        self.run_id = run_id
        self.owner = owner
        self.until = until


class RunStatusError(LogError):
    """The status of a run does not allow what was requested.

    For example, a run that has ended cannot be claimed and takes no commands. Nothing was written.

    Attributes:
        run_id: The run's id.
        status: The status of the run.
    """

    def __init__(self, message: str, *, run_id: str, status: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.status = status


class CommandConflictError(LogError):
    """A command was sent before under the same key, such as a decision about the same pause."""


class WorkerError(RxWorkerError):
    """A run ended without a result."""


class RunAbortedError(WorkerError):
    """A hook ended the run.

    Attributes:
        reason: The reason that the hook has given.
        hook: The hook's name.
    """

    page = "hooks"

    def __init__(self, reason: str, *, hook: str | None = None) -> None:
        who = f"hook {hook!r}" if hook else "a hook"
        super().__init__(f"the run was aborted by {who}: {reason}")
        self.reason = reason
        self.hook = hook


class RunCancelledError(WorkerError):
    """``run.cancel()`` was called. The worker keeps the conversation so far and can run again.

    Attributes:
        reason: The reason that the caller has given.
    """

    def __init__(self, reason: str = "cancelled by the caller") -> None:
        super().__init__(f"the run was cancelled: {reason}")
        self.reason = reason


class RunHandedOverError(WorkerError):
    """``run.hand_over()`` was called: the run is not over, and another process continues it.

    Attributes:
        reason: The reason that the caller has given.
    """

    page = "recover"

    def __init__(self, reason: str) -> None:
        super().__init__(f"the run was handed over: {reason}; worker.recover(run) continues it in any process")
        self.reason = reason


class LimitExceededError(WorkerError):
    """A limit of the run was reached.

    Attributes:
        limit: Its name in ``Limits``, for example ``max_turns``.
        value: The value that was set.
    """

    page = "limits"

    def __init__(self, limit: str, value: float) -> None:
        owner, _, name = f"limits.{limit}".rpartition(".")
        kind = owner.rpartition(".")[2]
        super().__init__(
            f"the run reached its limit {limit}={value:g}; the conversation so far is kept, run again to "
            f"go on, or raise the limit with Worker({kind}={kind.capitalize()}({name}=...))"
        )
        self.limit = limit
        self.value = value


def _page_of_caller() -> str:
    """The page of the innermost module on the stack that has one."""
    frame, page = sys._getframe(2), ""
    while frame is not None and not page:
        page = page_of(str(frame.f_globals.get("__name__")))
        frame = frame.f_back
    return page


def page_of(module: str) -> str:
    """The page about what a module of rxworker does; "" if it has none.

    >>> page_of("rxworker.operators.select"), page_of("json")
    ('reference/operators', '')
    """
    name = module.removeprefix("rxworker.")
    while name not in _PAGES and name:
        name = name.rpartition(".")[0]
    return _PAGES.get(name, "") if module.startswith("rxworker.") else ""


def message_of(error: BaseException) -> str:
    """The message of an exception as records have it, without secrets of the environment.

    Empty if it cannot be made.
    """
    try:
        return without_secrets(str(error))
    except BaseException:  # an exception's own __str__ may raise anything
        return ""


def describe(error: BaseException) -> str:
    """The type of an exception and its message; the type alone if the message is empty or cannot be made.

    >>> describe(ValueError("no such city"))
    'ValueError: no such city'
    """
    text = message_of(error)
    kind = type(error).__qualname__
    return f"{kind}: {text}" if text else kind


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the known name that is most like it, or nothing.

    >>> nearest("Inputs", ["input", "call"]), nearest("x", ["input"])
    ("; did you mean 'input'?", '')
    """
    import difflib  # after a mistake only

    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lower, 1)
    return f"; did you mean {lower[close[0]]!r}?" if close else ""


def reason_of(error: BaseException) -> str:
    """The text of an error that ended something: the message of an `RxWorkerError`.

    The message of any other error with its type.

    >>> reason_of(RunCancelledError("lunch")), reason_of(KeyError("city"))
    ('the run was cancelled: lunch', "KeyError: 'city'")
    """
    return message_of(error) if isinstance(error, RxWorkerError) else describe(error)


def own(error: Exception, trace: TracebackType | None) -> Exception:
    """A copy of an error that several raise, with this traceback, which each of them lengthens.

    One that cannot be copied gets the traceback itself.

    >>> error = RunCancelledError("lunch")
    >>> copied = own(error, None)
    >>> copied is error, repr(copied) == repr(error), copied.reason
    (False, True, 'lunch')
    """
    kind = type(error)
    try:
        # Its `__init__` may take other arguments than those that it passes on.
        is_plain = isinstance(kind.__init__, FunctionType)
        copied = kind.__new__(kind, *error.args) if is_plain else copy(error)
        copied.__dict__.update(error.__dict__)
        if hasattr(error, "__notes__"):
            copied.__notes__ = [*error.__notes__]
        if type(copied) is not kind or str(copied) != str(error):
            return error.with_traceback(trace)
    except Exception:  # the program's own error, whose methods may raise anything
        return error.with_traceback(trace)
    copied.__cause__, copied.__context__ = error.__cause__, error.__context__
    copied.__suppress_context__ = error.__suppress_context__
    return copied.with_traceback(trace)


def as_exception(error: BaseException) -> Exception:
    """The exception with which a stream ends if user code raised ``error``: ``on_error`` takes an `Exception`.

    An `Exception` stays as it is. ``KeyboardInterrupt`` stays too, so that it reaches the program through whatever
    awaits the stream. Anything else, such as ``SystemExit`` or a test framework's failure, becomes an `RxWorkerError`
    with ``error`` as its cause: raised as it is, ``SystemExit`` would end the program, ``GeneratorExit`` and a
    cancellation would be taken for those of the awaiting task.

    >>> as_exception(SystemExit(3))
    RxWorkerError('SystemExit: 3')
    """
    if isinstance(error, Exception | KeyboardInterrupt):
        return error  # pyright: ignore[reportReturnType] - see above
    wrapped = RxWorkerError(describe(error))
    wrapped.__cause__ = error
    return wrapped
