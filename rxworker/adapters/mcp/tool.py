"""A worker as a tool of an MCP server: its name, its arguments, and the results that it returns."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated

import msgspec
from mcp.types import Tool
from msgspec import Meta, Struct

from rxworker.errors import InvalidArgumentError
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.settings import check_plain
from rxworker.redact import redact
from rxworker.state import RunState
from rxworker.tools.base import check_name
from rxworker.turn.output import Output
from rxworker.turn.result import answer_of
from rxworker.ui.web.runs.entry import RunEntry
from rxworker.worker.worker import Worker

RUN = "rxworker/run"
"""The key of a result's ``_meta`` with the id of the run, its turns and its usage."""

INPUT_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "message": {
            "type": "string",
            "description": "The task or question, with everything that has to be known for it.",
        },
        "conversation": {
            "type": "string",
            "description": "To continue an earlier conversation with this tool: the id that its last result gave.",
        },
    },
    "required": ["message"],
    "additionalProperties": False,
}


class McpWorker(Struct, frozen=True):
    """A worker as a tool, with its description for clients and the type of its answers.

    Attributes:
        make: Returns a worker. Each conversation gets a worker of its own.
        description: When and how to use the tool, for the client's model; by default the docstring of ``make``.
        output: The type of the answer; see ``Worker.run``. The result then has it as its structured content.

    >>> from rxworker.testing import ScriptedModel
    >>> McpWorker(lambda: Worker(ScriptedModel(["4"])), "Counts.", output=int).description
    'Counts.'
    """

    make: Callable[[], Worker]
    description: str = ""
    output: type[object] | None = None

    def __post_init__(self) -> None:
        """Check the function."""
        check_plain("the function that makes a worker", self.make)


class Arguments(Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of a call."""

    message: Annotated[str, Meta(min_length=1)]
    conversation: str | None = None


class ServedTool:
    """A worker as a tool.

    Args:
        name: The name for clients.
        worker: The worker.

    Raises:
        ConfigurationError: The name is not one that every client accepts, or the output has no JSON schema.
    """

    def __init__(self, name: str, worker: McpWorker) -> None:
        check_name(name)
        self.name = name
        self.worker = worker
        self.output = None if worker.output is None else Output(worker.output)

    def describe(self) -> Tool:
        """The tool as a client lists it."""
        usual = f"Give a task to the agent {self.name!r}, and get its answer."
        return Tool(
            name=self.name,
            description=self.worker.description or _docstring(self.worker.make) or usual,
            input_schema=INPUT_SCHEMA,
            output_schema=None if self.output is None else self.output.format.schema,
        )

    def read(self, given: dict[str, object] | None) -> Arguments:
        """The arguments of a call.

        Raises:
            InvalidArgumentError: They do not fit the schema.
        """
        try:
            return msgspec.convert(given or {}, Arguments)
        except msgspec.ValidationError as error:
            raise InvalidArgumentError(f"invalid arguments: {error}", tool=self.name) from error

    def result(self, entry: RunEntry) -> JsonObject:
        """The result of a run that has ended."""
        state = entry.run.state
        if entry.status != "finished":
            return self.failure(entry, f"The run failed: {redact(entry.reason)}")
        text = answer_of(state.conversation)
        if self.output is None:
            return self._result(entry, text)
        if complaint := self.output.complaint(text):
            return self.failure(entry, text or complaint)
        return self._result(entry, text, structured=self.output.read(text))

    def failure(self, entry: RunEntry, text: str) -> JsonObject:
        """The result of a run that waits, or that was not continued."""
        return self._result(entry, text, is_error=True)

    def _result(self, entry: RunEntry, text: str, *, is_error: bool = False, structured: Json = None) -> JsonObject:
        again = f"[To continue this conversation, call {self.name} with conversation={entry.id!r}.]"
        for_the_model: JsonObject = {"audience": ["assistant"], "priority": 0.2}
        result: JsonObject = {
            "content": [{"type": "text", "text": text}, {"type": "text", "text": again, "annotations": for_the_model}],
            "isError": is_error,
            "_meta": {RUN: _numbers(entry.id, entry.run.state)},
        }
        if structured is not None:
            result["structuredContent"] = structured
        # Half a character cannot be encoded, and a reason may contain a secret.
        return msgspec.json.decode(entry.redact(encode_lenient(result)))


def error_result(text: str) -> JsonObject:
    """The result of a call for which no run has begun."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _numbers(run_id: str, state: RunState) -> JsonObject:
    usage: JsonObject = msgspec.to_builtins(state.usage)
    del usage["type"]
    return {"id": run_id, "turns": state.turns, "usage": usage}


def _docstring(make: object) -> str:
    is_named = inspect.isfunction(make) or inspect.ismethod(make) or inspect.isclass(make)
    text = (inspect.getdoc(make) or "") if is_named else ""
    return " ".join(text.partition("\n\n")[0].split())
