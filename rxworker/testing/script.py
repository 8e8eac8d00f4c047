"""What is answered to one request after the other: a list, or a function of what was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeAlias, TypeVar

from rxworker.errors import LocalProtocolError

A = TypeVar("A")
B = TypeVar("B")

Answers: TypeAlias = Sequence[B] | Callable[[A], B]


class ScriptExhaustedError(LocalProtocolError):
    """More requests came than answers were scripted.

    Attributes:
        scripted: How many answers there were.
        request: The number of the request that found none.
    """

    def __init__(self, scripted: int, request: int) -> None:
        super().__init__(
            f"request {request} came, but only {scripted} answers were scripted; give one for each request, "
            "or a function that answers any number of them"
        )
        self.scripted = scripted
        self.request = request


class Script(Generic[A, B]):
    """Hands out one answer for each request, in order. May be asked from any thread.

    >>> script = Script[str, str](["first", "second"])
    >>> script.answer("?"), script.answer("?")
    ((1, 'first'), (2, 'second'))
    """

    def __init__(self, answers: Answers[B, A]) -> None:
        self._answers = answers
        self._lock = threading.Lock()
        self._count = 0

    def answer(self, asked: A) -> tuple[int, B]:
        """The number of this request, from 1, and its answer.

        Raises:
            ScriptExhaustedError: The list has come to its end.
        """
        with self._lock:
            self._count += 1
            number = self._count
        if callable(self._answers):
            return number, self._answers(asked)
        if number > len(self._answers):
            raise ScriptExhaustedError(len(self._answers), number)
        return number, self._answers[number - 1]


__all__ = ["Answers", "Script", "ScriptExhaustedError"]
