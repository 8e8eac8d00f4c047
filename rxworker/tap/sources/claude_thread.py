"""What writes the responses of Claude Code one after the other, in its session files and in its SDK. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from rxworker.messages.usage import Usage, less
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.values import json_of, kind_of, member, object_of, text, text_of


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
