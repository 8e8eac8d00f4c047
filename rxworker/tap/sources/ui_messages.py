"""The UI Message Stream of the AI SDK, versions 5 and later. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from rxworker.events.pause import CLIENT_TOOL
from rxworker.messages import Json, JsonObject, Message
from rxworker.messages.message import Input
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import WireMapper
from rxworker.tap.sources.values import json_member, member, members, stop_of, text


class UIMessages(WireMapper):
    """Reads the parts of a message as ``useChat`` does, such as those that `json_events` reads from an address.

    Known are texts, thinking, calls and results, steps, files, sources, data, approvals and the end. A step is a turn,
    which a tool may start in before its response is whole. Not reported, and so unknown, are retries, models and usage,
    but by servers of rxworker. A call that the provider runs has its result as a custom event.

    Args:
        name: The name of the program.
        given: The input of the run, which the stream does not have.

    Example:
        >>> mapper = UIMessages("desk", "Hi")
        >>> parts = [{"type": "start"}, {"type": "text-delta", "id": "0", "delta": "Hello."}, {"type": "finish"}]
        >>> [type(each.event).__name__ for part in parts for each in mapper.feed(part)][-4:]
        ['BlockStop', 'Status', 'TurnStop', 'RunStop']
    """

    def __init__(self, name: str = "", given: Input | None = None) -> None:
        super().__init__(name, given)
        self._run.late_calls = True
        self._streamed: set[str] = set()  # blocks of runs inside that come in pieces
        self._asked: list[tuple[str, str]] = []  # calls that wait for a decision, and why
        self._pause: object = None

    def take(self, event: Mapping[str, object]) -> None:
        """Take the next part."""
        kind, run, key, delta = text(event.get("type")), self._run, text(event.get("id")), text(event.get("delta"))
        if run.status == "new":
            run.start(self.given)
        if kind.startswith("tool-"):
            self._call(kind, text(event.get("toolCallId")), event)
        elif kind.startswith("data-"):
            self._data(kind.removeprefix("data-"), key, event.get("data"))
        elif kind == "text-delta":
            run.text(delta, key)
        elif kind == "reasoning-delta":
            run.thinking(delta, key)
        elif kind in ("text-end", "reasoning-end"):
            if signature := text(event, "providerMetadata.rxworker.signature"):
                run.signature(signature, key)
            run.stop_block(key)
        elif kind == "start-step":
            run.respond()
        elif kind == "reset-step":
            self.retract(run, "the step was reset")
        elif kind in ("finish", "abort", "error"):
            self._end_run(kind, event)
        elif kind == "message-metadata" or event.get("messageMetadata") is not None:
            self.other(run, "ui.metadata", event.get("messageMetadata"))
        elif kind not in ("start", "finish-step", "text-start", "reasoning-start", ""):
            self.other(run, f"ui.{kind}", event)

    def _call(self, kind: str, key: str, event: Mapping[str, object]) -> None:
        run, name, given = self._run, text(event.get("toolName")), json_member(event, "input")
        match kind:
            case "tool-input-start":
                self.call(run, key, name, is_provided=event.get("providerExecuted") is True)
            case "tool-input-delta":
                run.arguments(text(event.get("inputTextDelta")), key)
            case "tool-input-error" if isinstance(given, str):
                run.abort_block(text(event.get("errorText")), key)
            case "tool-input-available" | "tool-input-error":
                self.call(run, key, name, given, is_provided=event.get("providerExecuted") is True)
                self.whole(run, key)
            case "tool-output-available" if event.get("preliminary") is True:
                run.tool_progress(key, json_member(event, "output"))
            case "tool-output-available" | "tool-output-error" | "tool-output-denied":
                output = event.get("output") if kind == "tool-output-available" else event.get("errorText")
                self.result(run, key, output or "", is_error=kind != "tool-output-available")
            case "tool-approval-request" if event.get("isAutomatic") is not True:
                self._asked.append((key, text(event.get("reason"))))
            case _:
                self.other(run, f"ui.{kind}", event)

    def _data(self, name: str, key: str, data: object) -> None:
        """Data of the program, or what rxworker sends of runs inside, of requests and of the shared state."""
        call = text(data, "toolCallId")
        if name == "run" and call:
            self._run_inside(key, call, data)
        elif name.startswith("inside") and text(data, "scope") in self.runs:
            self._inside(self.runs[text(data, "scope")], name, call, data)
        elif name == "progress" and call in self.waiting:
            self._run.tool_progress(call, json_member(data, "progress"))
        elif name == "state" and key == name:
            self.change({"op": "replace", "path": "", "value": data})
        elif name == "message" and members(data, "texts"):
            self._run.add(*[Message.user(text(each)) for each in members(data, "texts")])
        elif name == "pause":
            self._pause = data
        elif name != "retract":  # it follows as an event
            path = key.rpartition(".")[0].rpartition(".")[0]  # of an event of rxworker
            run = self.runs.get(path.removeprefix("run"))
            if run is None:
                self._run.custom(f"data-{name}", {"id": key, "data": cast("Json", data)})
            else:
                self.other(run, f"data-{name}", data)

    def _run_inside(self, key: str, call: str, data: object) -> None:
        status, parent = member(data, "status"), self.runs.get(text(data, "parent"), self._run)
        if status == "running":
            self.inside(key, parent, call, text(data, "name"))
        elif (run := self.runs.get(key)) is not None:
            run.end() if status == "finished" else run.abort(text(data, "error") or "it failed")

    def _inside(self, run: RunBuilder, name: str, call: str, data: object) -> None:
        key, kind, delta = text(data, "id"), member(data, "kind"), text(data, "delta")
        if name == "inside-call":
            run.tool_start(call, "", cast("JsonObject", member(data, "input")))
        elif name == "inside-result":
            self.result(run, call, member(data, "output"), is_error=member(data, "isError") is True)
        else:
            is_whole = name == "inside"
            if is_whole and key not in self._streamed:
                delta = text(data, "text")
            self._streamed.add(key)
            if kind in ("tool_use", "server_tool_use"):
                run.call(key, text(data, "tool"), is_provided=kind == "server_tool_use")
                run.arguments(delta, key)
            else:
                (run.thinking if kind == "thinking" else run.text)(delta, key)
            if is_whole:
                run.stop_block(key)

    def _end_run(self, kind: str, event: Mapping[str, object]) -> None:
        run, reason = self._run, text(event.get("finishReason"))
        if kind == "abort":
            run.abort(text(event.get("reason")) or "by its program", "cancel")
        elif kind == "error" or reason == "error":
            run.abort(text(event.get("errorText")) or "it failed")
        elif self._asked or self._pause is not None:
            hook, why = text(self._pause, "hook"), text(self._pause, "reason")
            ids, reasons = [key for key, _ in self._asked], [each for _, each in self._asked]
            run.pause(why or next(filter(None, reasons), ""), ids, hook=hook or "requires_approval")
        elif reason == "tool-calls" and self.waiting:
            run.pause(hook=CLIENT_TOOL)
        else:
            run.respond(stop_of(reason)) if run.is_responding else None
            run.end()
