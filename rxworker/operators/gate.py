"""Checks of text, side by side; what they allow passes in order.

Theory of operation. What passes stands in a row. A window of text is checked as soon as it stands there, unless as many
as allowed are checked already; what needs no check only waits for its turn. When the head of the row is decided, it
passes or is replaced, and so on with the next. So checks overlap in time, and the order, and what is replaced, are as
if there were one check after the other.

A value that is whole when it comes, such as a result, is cut into windows that overlap by half, of which the last one
carries it. Text that arrives in pieces is cut by `hold_back`.

Whatever is not checked never passes: a check that raises, returns something other than a bool, or is cancelled, fails
the row when its turn comes. An error never has the text.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Any, Generic, TypeAlias, TypeVar, cast
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from rxworker.errors import ConfigurationError, InputRefusedError, RxWorkerError, TextRejectedError, as_exception
from rxworker.events import Custom, GateVerdict
from rxworker.messages.settings import check_plain
from rxworker.operators.kernel import Operator

A = TypeVar("A")
T = TypeVar("T")

Check: TypeAlias = Callable[[str], bool | Awaitable[bool]]
"""Whether a text may pass. An observable of a bool can be awaited, so it will do as well."""


class Gate(Struct, frozen=True):
    """The settings of `rxworker.operators.hold_back`.

    Attributes:
        checks: The checks, by their names: all must agree.
        window: How many characters a check receives.
        ahead: How many characters of text a character waits for.
        replacement: The text that replaces text that must not pass; ``None``: the stream fails.
        thinking: Whether thinking is checked.
        at_most: How many windows are checked at once.
        limit: How many characters may wait.
    """

    checks: tuple[tuple[str, Check], ...]
    window: int
    ahead: int
    replacement: str | None
    thinking: bool
    at_most: int
    limit: int


class Host(Struct):
    """What a run gives the gates of a response.

    Attributes:
        rows: Receives the row of each, for which the connection waits while it is full.
        context: The context of their checks: a check that makes a request must not wait for what waits for it.
    """

    rows: list[Any]
    context: Context


HOST: ContextVar[Host | None] = ContextVar("rxworker_gate_host", default=None)


class Tally(Struct):
    """The windows of one block, or of one value.

    Attributes:
        kind: What it is, as in `GateVerdict`.
        block: The index of the block.
        call_id: The id of the call.
        windows: How many were decided.
        seconds: The longest time that awaited checks of one took.
        is_refused: Whether one was refused.
    """

    kind: str
    block: int | None = None
    call_id: str = ""
    windows: int = 0
    seconds: float = 0.0
    is_refused: bool = False


@dataclass(slots=True, eq=False)
class Window:
    """Texts that are checked together, and what passes after that.

    Attributes:
        texts: The texts; without any, it only waits for its turn.
        tally: What it belongs to.
        passed: Called in its turn, if all checks agreed.
        refused: Called in its turn, if one did not, and there is a replacement.
        is_last: Whether no window of the tally follows.
        refused_by: The name of the check that refused it.
        error: Why a check failed.
        awaited: The checks that are awaited, with their names.
        began: When they began.
        is_done: Whether it is decided.
    """

    texts: Sequence[str] = ()
    tally: Tally | None = None
    passed: Callable[[], object] = bool
    refused: Callable[[], object] = bool
    is_last: bool = False
    refused_by: str = ""
    error: Exception | None = None
    awaited: dict[asyncio.Future[bool], str] = field(default_factory=dict[asyncio.Future[bool], str])
    began: float = 0.0
    is_done: bool = False

    def begin(self, texts: Sequence[str]) -> None:
        """These are to be checked from now on."""
        self.texts, self.error, self.refused_by, self.began, self.is_done = texts, None, "", 0.0, not texts

    @property
    def size(self) -> int:
        """How many characters wait with it."""
        return len(self.texts[0]) if self.texts else 0

    def cancel(self) -> bool:
        """Cancel what is awaited. Whether anything was."""
        awaited, self.awaited = self.awaited, {}
        for future in awaited:
            future.cancel()
        return bool(awaited)


class Row(Generic[A]):
    """What passes one gate, in order.

    Args:
        gate: The gate.
        emit: Receives what passes, and the verdicts.
        fail: Receives the error that ends it.
        context: The context of the checks; by default that of the run, or else the current one.

    Attributes:
        is_over: Whether it has failed, or was disposed.
    """

    def __init__(
        self,
        gate: Gate,
        emit: Callable[[A], object],
        fail: Callable[[Exception], object],
        context: Context | None = None,
    ) -> None:
        host = HOST.get()
        if context is None and host is not None:
            host.rows.append(self)
            context = host.context
        self.is_over = False
        self.gate = gate
        self.emit = emit
        self._fail = fail
        self._context = copy_context() if context is None else context
        self._row: deque[Window] = deque()
        self._waiting: deque[Window] = deque()
        self._checked = 0
        self._held = 0
        self._is_moving = False
        self._released: asyncio.Future[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether half of what may wait does."""
        return 2 * self._held > self.gate.limit

    def hold(self) -> asyncio.Future[None] | None:
        """The future to wait for before more is read; ``None``: none."""
        return self._until_released() if self.is_full and not self.is_over else None

    def idle(self) -> asyncio.Future[None] | None:
        """The future to wait for until something has passed; ``None``: nothing waits."""
        return self._until_released() if self._row and not self.is_over else None

    def _until_released(self) -> asyncio.Future[None]:
        if self._released is None or self._released.done():
            self._released = asyncio.get_running_loop().create_future()
        return self._released

    def pass_on(self, item: A) -> None:
        """Emit an item in its turn, without a check."""
        if self._row:
            self.then(partial(self.emit, item))
        elif not self.is_over:
            self.emit(item)

    def then(self, action: Callable[[], object]) -> None:
        """Call a function in its turn."""
        self.put(Window(passed=action))

    def put_value(
        self, texts: Sequence[str], tally: Tally, passed: Callable[[], object], refused: Callable[[], object]
    ) -> None:
        """Check all of a value; then call one of the functions, in its turn."""
        windows = [*_cut(texts, self.gate.window)]
        for text in windows[:-1]:
            self.put(Window((text,), tally))

        def decided() -> None:
            (refused if tally.is_refused else passed)()

        self.put(Window(windows[-1:], tally, decided, refused, is_last=True))

    def put(self, window: Window) -> None:
        """Check a window; then it passes, in its turn."""
        if self.is_over:
            return
        self._row.append(window)
        window.begin(window.texts)
        if window.texts:
            self._held += window.size
            self._waiting.append(window)
            self._start()
        self._move()
        if self._held > self.gate.limit and not self.is_over:
            self.fail(RxWorkerError(_TOO_MUCH.format(self.gate.limit)))

    def again(self, window: Window, texts: Sequence[str]) -> None:
        """Check other texts in place of those of a window that has not had its turn."""
        self._held -= window.size
        self._leave(window)
        window.begin(texts)
        self._held += window.size
        if texts:
            self._waiting.appendleft(window)
            self._start()

    def fail(self, error: Exception) -> None:
        """End it with an error; nothing passes any more."""
        if not self.is_over:
            self.dispose()
            self._fail(error)

    def dispose(self) -> None:
        """Cancel the checks; nothing passes any more."""
        self.is_over = True
        row, self._row = self._row, deque()
        self._waiting.clear()
        for window in row:
            self._leave(window)
        self._held = 0
        self._release()

    def _leave(self, window: Window) -> None:
        if window in self._waiting:
            self._waiting.remove(window)
        elif window.cancel():
            self._checked -= 1

    def _start(self) -> None:
        while self._waiting and self._checked < self.gate.at_most and not self.is_over:
            window = self._waiting.popleft()
            try:
                self._check(window)
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                window.error = as_exception(error)
            if window.awaited and window.error is None and not window.refused_by:
                self._checked += 1
                window.began = asyncio.get_running_loop().time()
            else:
                self._decide(window)

    def _check(self, window: Window) -> None:
        for text in window.texts:
            for name, check in self.gate.checks:
                context = self._context.copy()
                answer = context.run(check, text)
                if inspect.isawaitable(answer):
                    window.awaited[future_of("hold_back(...)", answer, context)] = name
                elif not _expect_bool(answer, name):
                    window.refused_by = name
                    return
        for future in window.awaited:
            future.add_done_callback(partial(self._answered, window))

    def _answered(self, window: Window, future: asyncio.Future[bool]) -> None:
        name = window.awaited.pop(future, None)
        if name is None:
            return  # it is not needed any more
        try:
            if not _expect_bool(future.result(), name):
                window.refused_by = name
        except asyncio.CancelledError:
            window.error = RxWorkerError(f"the check {name} of hold_back was cancelled")
        except BaseException as error:
            window.error = as_exception(error)
        if not window.awaited or window.refused_by or window.error is not None:
            self._checked -= 1
            self._decide(window)
            try:
                self._start()
                self._move()
            except Exception as error:  # of an observer, which no caller receives here
                self.fail(error)

    def _decide(self, window: Window) -> None:
        window.cancel()
        window.is_done = True
        if window.tally is not None and window.began:
            seconds = asyncio.get_running_loop().time() - window.began
            window.tally.seconds = max(window.tally.seconds, seconds)

    def _move(self) -> None:
        """Let the head of the row pass, and what follows it, up to the first that is not decided."""
        if self._is_moving:
            return  # the loop below goes on
        self._is_moving = True
        try:
            while self._row and self._row[0].is_done and not self.is_over:
                window = self._row.popleft()
                self._held -= window.size
                self._pass(window)
        finally:
            self._is_moving = False
            self._release()

    def _pass(self, window: Window) -> None:
        tally = window.tally
        if window.error is not None:
            self.fail(window.error)
            return
        if tally is not None and window.texts:
            tally.windows += 1
        if not window.refused_by:
            window.passed()
            if tally is not None and window.is_last and tally.windows and not tally.is_refused:
                self.emit(cast("A", _verdict(self.gate, tally, "", "pass")))
            return
        if tally is not None and not tally.is_refused:
            tally.is_refused = True
            verdict = "refuse" if self.gate.replacement is None else "replace"
            self.emit(cast("A", _verdict(self.gate, tally, window.refused_by, verdict)))
        if self.gate.replacement is None:
            self.fail(TextRejectedError(_REJECTED.format(window.refused_by, tally.kind if tally else "a text")))
        else:
            window.refused()

    def _release(self) -> None:
        released = self._released
        if released is not None and not released.done() and (self.is_over or not self.is_full or not self._row):
            released.set_result(None)


def _verdict(gate: Gate, tally: Tally, refused_by: str, verdict: Any) -> Custom:
    check = refused_by or ", ".join(name for name, _ in gate.checks)
    seconds = round(tally.seconds, 3)
    return GateVerdict(check, tally.kind, verdict, seconds, tally.windows, tally.block, tally.call_id).custom


_TOO_MUCH = (
    "hold_back holds more than {} characters, since its checks are slower than the text: give a quicker check, or a "
    "larger at_most or limit"
)
_REJECTED = "the check {} of hold_back rejected a text ({}): it was held back, and nothing of it has passed"


InputGate: TypeAlias = Operator[Any, Any]
"""What `rxworker.operators.hold_back` returned, as the gate of what clients send."""

_ALLOWED: WeakKeyDictionary[InputGate, dict[bytes, None]] = WeakKeyDictionary()
_MOST = 10_000
"""How many digests of texts are kept that have passed, for each gate."""


def check_gate(gate: InputGate | None) -> None:
    """Check the option ``gate`` of a server.

    Raises:
        ConfigurationError: It is something else than what `rxworker.operators.hold_back` returns.
    """
    check_plain("gate", gate, instead="; give gate=hold_back(my_check)")
    if gate is not None and not isinstance(getattr(gate, "gate", None), Gate):
        raise ConfigurationError(f"gate={gate!r:.60}: give gate=hold_back(my_check)")


async def expect_allowed(gate: InputGate | None, given: object, leave_out: Collection[str] = ()) -> None:
    """Check the texts of what a client has sent, before anything else has it.

    Clients send their history again, so what has passed is not checked again.

    Args:
        gate: The gate of the server; without one, everything passes.
        given: JSON as bytes, or a value as `texts_in` takes it.
        leave_out: The names of members that are not checked.

    Raises:
        InputRefusedError: A check refused a text, or failed; or the bytes are not JSON that can be read.

    >>> from rxworker.operators import hold_back
    >>> def is_clean(text: str) -> bool:
    ...     return "hunter2" not in text
    >>> asyncio.run(expect_allowed(hold_back(is_clean), b'{"input": "hello"}'))
    """
    if gate is None:
        return
    known = _ALLOWED.setdefault(gate, {})
    try:
        value = msgspec.json.decode(given) if isinstance(given, bytes | msgspec.Raw) else given
        found = {sha256(text.encode("utf-8", "replace")).digest(): text for text in texts_in(value, leave_out)}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        # A reader with types passes over members that it does not know, and might take the others.
        raise InputRefusedError(f"the input is not accepted: it cannot be checked ({error})") from None
    texts = [text for digest, text in found.items() if digest not in known]
    try:
        is_allowed = not texts or await allows(vars(gate)["gate"], texts)
    except Exception as error:
        raise InputRefusedError(f"the input is not accepted: a check raised {type(error).__name__}") from error
    if not is_allowed:
        raise InputRefusedError("the input is not accepted: a check refused it")
    known.update(dict.fromkeys(found))
    for digest in [*known][: max(len(known) - _MOST, 0)]:
        del known[digest]


async def allows(gate: Gate, texts: Sequence[str]) -> bool:
    """Whether all checks of a gate agree to texts.

    Raises:
        Exception: A check failed.

    >>> gate = Gate((("is_short", lambda text: len(text) < 5),), 400, 200, None, True, 8, 1000)
    >>> asyncio.run(allows(gate, ["yes", "perhaps"]))
    False
    """
    decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def failed(error: Exception) -> None:
        if isinstance(error, TextRejectedError):
            decided.set_result(False)
        else:
            decided.set_exception(error)

    row = Row[Custom](gate, bool, failed)
    row.put_value(texts, Tally("input"), partial(decided.set_result, True), partial(decided.set_result, False))
    try:
        return await decided
    finally:
        row.dispose()


SEALS = frozenset({"encrypted_content", "encrypted_index", "id", "signature", "thoughtSignature", "thought_signature"})
"""Members of a provider's echo that only the provider can read."""
_BLOCK = ("data", "media_type")
"""Fields of content blocks that do not hold text."""
_BASE64 = re.compile(r"(?:data:[\w/+.;=-]*,)?[A-Za-z0-9+/_-]*={0,2}")
_FILE = 1000
"""From how many characters on a member ``data`` or a ``data:`` URL in base64 is a file, and no text."""


def texts_in(value: object, seals: Collection[str] = ()) -> Iterator[str]:
    r"""The texts in a value, names and numbers included. Of one with escapes of JSON also what they stand for.

    Args:
        value: JSON, or a Struct.
        seals: The names of members that are left out.

    >>> [*texts_in({"city": ["Os\\u006co", 7], "id": "x"}, SEALS)]
    ['city', 'Os\\u006co', 'Oslo', '7', 'id']
    """
    if isinstance(value, str):
        yield value
        if "\\" in value:
            yield decoded(value)
    elif isinstance(value, dict):
        for name, each in cast("dict[str, object]", value).items():
            yield from texts_in(name)
            if name not in seals and not _is_file(name, each):
                yield from texts_in(each, seals)
    elif isinstance(value, list | tuple):
        for each in cast("Sequence[object]", value):
            yield from texts_in(each, seals)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            if name not in _BLOCK:
                yield from texts_in(getattr(value, name), seals)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _is_file(name: str, value: object) -> bool:
    if not isinstance(value, str) or len(value) < _FILE or not (name == "data" or value.startswith("data:")):
        return False
    return _BASE64.fullmatch(value) is not None


def _cut(texts: Sequence[str], size: int) -> Iterator[str]:
    """Windows of texts, which overlap by half: each text by itself, short ones in lines of one window."""
    half = max(size // 2, 1)
    lines: list[str] = []
    length = 0
    for text in filter(None, texts):
        if lines and length + len(text) > size:
            yield "\n".join(lines)
            lines, length = [], 0
        begin = 0
        while len(text) - begin > size:
            yield text[begin : begin + 2 * half]
            begin += half
        lines.append(text[begin:])
        length += len(lines[-1]) + 1
    if lines:
        yield "\n".join(lines)


_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
"""The first half of a character."""
_TOKENS = re.compile(
    rf"{_HIGH}\\u[dD][c-fC-F][0-9a-fA-F]{{2}}|\\u[0-9a-fA-F]{{4}}|\\[^u]|\\u?[0-9a-fA-F]{{0,3}}|[^\\]+", re.DOTALL
)
_UNFINISHED = re.compile(rf"\\(?:u[0-9a-fA-F]{{0,3}})?|{_HIGH}")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\", "/": "/"}


def _char(token: str) -> str:
    if token[:2] != "\\u":
        return _ESCAPES.get(token[1:], token)
    if len(token) < 6:
        return token
    code = int(token[2:6], 16)
    if len(token) == 12:
        code = 0x10000 + ((code - 0xD800) << 10) + int(token[8:], 16) - 0xDC00
    return chr(code)


def decoded(text: str) -> str:
    r"""A text with what the escapes of JSON in it stand for.

    >>> decoded(r'{"a": "hunter\u0032"}')
    '{"a": "hunter2"}'
    """
    return "".join([_char(token) if token[0] == "\\" else token for token in _TOKENS.findall(text)])


Piece: TypeAlias = tuple[str, str]
"""A text as it came, and as its reader sees it."""


def pieces_of(text: str, size: int, *, is_json: bool, is_last: bool = False) -> tuple[list[Piece], str]:
    r"""Cut a text into pieces of which a reader sees so many characters; and the rest, which is shorter.

    Args:
        text: The text.
        size: How many characters.
        is_json: Whether escapes of JSON in it stand for characters.
        is_last: Whether nothing follows: the rest is the last piece.

    >>> pieces_of(r'a\u0062cd\u00', 2, is_json=True)
    ([('a\\u0062', 'ab'), ('cd', 'cd')], '\\u00')
    """
    if not (is_json and "\\" in text):
        end = len(text) - len(text) % size
        same = [text[at : at + size] for at in range(0, end, size)]
        rest = text[end:]
        plain = list(zip(same, same, strict=True))
        return ([*plain, (rest, rest)], "") if is_last else (plain, rest)
    tokens, left = _TOKENS.findall(text), ""
    for _ in range(0 if is_last else 2):  # half of a character, and the beginning of the other half
        if tokens and _UNFINISHED.fullmatch(tokens[-1]):
            left = tokens.pop() + left
    pieces: list[Piece] = []
    raw: list[str] = []
    seen: list[str] = []
    for token in tokens:
        for part in [token] if token[0] == "\\" else token:
            raw.append(part)
            seen.append(_char(part) if part[0] == "\\" else part)
            if len(seen) == size:
                pieces.append(("".join(raw), "".join(seen)))
                raw, seen = [], []
    rest = "".join(raw) + left
    return ([*pieces, (rest, "".join(seen))], "") if is_last else (pieces, rest)


def _expect_bool(answer: object, name: str) -> bool:
    if isinstance(answer, bool):
        return answer
    raise ConfigurationError(
        f"the check {name} of hold_back returned {type(answer).__name__}: return True to let the text pass, False to "
        "hold it back"
    )


def future_of(verb: str, answer: Awaitable[T], context: Context | None = None) -> asyncio.Future[T]:
    """The future of what a function of an operator has returned.

    Args:
        verb: The operator, for the message.
        answer: What it has returned.
        context: The context of the task of a coroutine; by default a copy of the current one.

    Raises:
        ConfigurationError: There is no running event loop.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError as error:
        if inspect.iscoroutine(answer):
            answer.close()
        raise ConfigurationError(
            f"the coroutine function of {verb} needs a running event loop: subscribe within asyncio.run(...), or give "
            "a plain function"
        ) from error
    if isinstance(answer, asyncio.Future):
        return answer
    # A coroutine that is cancelled before it began needs a task of its own.
    work = cast("Coroutine[Any, Any, T]", answer) if inspect.iscoroutine(answer) else _result(answer)
    return loop.create_task(work, context=context)


async def _result(answer: Awaitable[T]) -> T:
    return await answer
