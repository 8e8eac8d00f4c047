"""AG-UI: the events of an agent, read by address or as an application has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import cast, get_args

import msgspec

from rxworker.errors import RxWorkerError
from rxworker.events.pause import CLIENT_TOOL
from rxworker.messages import Conversation, JsonObject, Message, Text
from rxworker.messages.message import Input
from rxworker.protocols.ag_ui import read_run_input
from rxworker.state.run import Cause
from rxworker.tap.builder import RunBuilder
from rxworker.tap.sources.mapper import WireMapper
from rxworker.tap.sources.values import json_member, member, members, sum_of, text, usage_of


class AGUI(WireMapper):
    """Reads the events of AG-UI, of all versions: mappings as they are sent, or the objects of its SDK.

    Known are texts, thinking, calls and results, steps, the shared state, messages, runs inside, interrupts and the
    usage of the whole run. A step begins another turn. Not reported, and so unknown, are retries, models and the usage
    of each response, but by servers of rxworker. ``RAW`` events repeat others, and are left out.

    Args:
        name: The name of the agent.
        given: The input of the run, where neither the agent repeats it nor `ag_ui_events` has sent it.

    Example:
        >>> mapper = AGUI("desk")
        >>> made = mapper.feed({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
        >>> made += mapper.feed({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": "Hello."})
        >>> made += mapper.feed({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
        >>> [type(each.event).__name__ for each in made][-4:]
        ['BlockStop', 'Status', 'TurnStop', 'RunStop']
    """

    sends_late = True

    def __init__(self, name: str = "", given: Input | None = None) -> None:
        super().__init__(name, given)
        self._labels: dict[str, str] = {}
        self._waits = False  # for a snapshot of the messages, which has the input
        self._own: dict[str, RunBuilder] = {}  # what has begun a run inside without a call
        self._added: dict[str, tuple[str, list[str]]] = {}  # texts that are not the agent's

    def take(self, event: Mapping[str, object]) -> None:
        """Take the next event."""
        kind = text(event.get("type"))
        run = self.runs.get(text(event.get("subagentRunId")), self._run)
        if kind == "RUN_STARTED":
            self._labels = {"thread": thread} if (thread := text(event.get("threadId"))) else {}
            self._waits = member(event, "input") is None and self.given is None
            if not self._waits:
                self._begin(member(event, "input.messages"), member(event, "input.state"))
            return
        if self._waits:
            self._waits = False
            self._begin(event.get("messages"))
        if kind.startswith("TOOL_CALL_"):
            self._call(run, kind, event)
        elif kind.startswith(("TEXT_", "REASONING_", "THINKING_")):
            self._message(run, kind, event)
        elif kind.startswith("SUBAGENT_"):
            self._subagent(run, kind, event)
        elif kind in ("RUN_FINISHED", "RUN_ERROR"):
            self._end_run(kind, event)
        else:
            self._other(run, kind, event)

    def _begin(self, messages: object, state: object = None) -> None:
        given, before = self.given, None
        with suppress(RxWorkerError, TypeError):  # such as a file of another service: the input is not known
            if isinstance(messages, list):
                read = read_run_input(msgspec.json.encode({"threadId": "", "runId": "", "messages": messages}))
                whole, given = read.conversation, read.messages or None
                before = Conversation(whole.messages[: len(whole.messages) - len(read.messages)], whole.system)
        self._run.start(given, before=before, labels=self._labels)
        if state:
            self.change({"op": "replace", "path": "", "value": state})

    def _message(self, run: RunBuilder, kind: str, event: Mapping[str, object]) -> None:
        key, delta, role = text(event.get("messageId")), text(event.get("delta")), text(event.get("role"))
        if kind.endswith(("_START", "_CHUNK")) and role in ("user", "system", "developer"):
            self._added.setdefault(key, (role, []))
        if key in self._added:
            role, pieces = self._added[key]
            pieces.append(delta)
            if kind.endswith(("_END", "_CHUNK")):
                del self._added[key]
                run.add(Message("user" if role == "user" else "system", (Text("".join(pieces)),)))
        elif event.get("subtype") == "message":
            run.signature(text(event.get("encryptedValue")), text(event.get("entityId")))
        elif kind.endswith(("_CONTENT", "_CHUNK")):
            (run.text if kind.startswith("TEXT") else run.thinking)(delta, key or None)
        elif kind.endswith("_MESSAGE_END"):
            run.stop_block(key or None)

    def _call(self, run: RunBuilder, kind: str, event: Mapping[str, object]) -> None:
        key, own = text(event.get("toolCallId")), member(event, "metadata.rxworker")
        if kind == "TOOL_CALL_RESULT":
            is_error = member(own, "isError") is True
            if member(own, "placeholder") is not True:
                self.result(run, key, event.get("content"), is_error=is_error, seconds=member(own, "seconds"))
        elif kind == "TOOL_CALL_END":
            self.whole(run, key)
        else:
            if name := text(event.get("toolCallName")):
                self.call(run, key, name, is_provided=member(own, "provided") is True)
            run.arguments(text(event.get("delta")), key)

    def _subagent(self, run: RunBuilder, kind: str, event: Mapping[str, object]) -> None:
        key, call = text(event.get("subagentRunId")), text(event.get("parentToolCallId"))
        if kind == "SUBAGENT_STARTED":
            parent = self.runs.get(text(event.get("parentSubagentRunId")), self._run)
            if not call:
                self._own[key] = parent
                parent.tool_start(key, text(event.get("name")))
            self.inside(key, parent, call or key, text(event.get("name")))
        elif kind == "SUBAGENT_ERROR":
            run.abort(text(event.get("message")) or "it failed", _cause(event.get("code")))
        else:
            run.end()
        if kind != "SUBAGENT_STARTED" and key in self._own:  # no tool has begun it
            self._own.pop(key).tool_stop(key, text(event.get("message")), is_error=kind == "SUBAGENT_ERROR")

    def _other(self, run: RunBuilder, kind: str, event: Mapping[str, object]) -> None:
        name, value = text(event.get("name")), event.get("value")
        call = text(value, "toolCallId") or text(event, "content.toolCallId")
        match kind:
            case "CUSTOM" if name == "rxworker.tool_start":
                run.tool_start(call, text(value, "name"), cast("JsonObject", member(value, "input")))
            case "CUSTOM" if name == "rxworker.tool_result":
                is_error, tool = member(value, "isError") is True, text(value, "name")
                self.result(run, call, member(value, "content"), is_error=is_error, name=tool)
            case "CUSTOM" if name == "rxworker.retract":
                self.retract(run, text(value, "reason"))
            case "CUSTOM":
                self.other(run, name or "CUSTOM", value)
            case "ACTIVITY_SNAPSHOT" if event.get("activityType") == "rxworker.tool_progress":
                run.tool_progress(call, json_member(event, "content.progress"))
            case "STATE_SNAPSHOT":
                self.change({"op": "replace", "path": "", "value": event.get("snapshot")})
            case "STATE_DELTA":
                for operation in members(event, "delta"):
                    self.change(operation)
            case "STEP_STARTED" | "STEP_FINISHED":
                self.complete()
                run.respond() if kind == "STEP_STARTED" else None
            case _ if kind not in ("MESSAGES_SNAPSHOT", "RAW", ""):
                self.other(run, f"ag_ui.{kind.lower()}", event)
            case _:
                pass

    def _end_run(self, kind: str, event: Mapping[str, object]) -> None:
        self.complete()
        if not self.has_usage and self._run.is_responding:
            self._run.usage(sum_of(map(usage_of, members(event, "usage"))))
        if event.get("result") is not None:
            self.other(self._run, "ag_ui.result", event["result"])
        interrupts = members(event, "outcome.interrupts")
        if kind == "RUN_ERROR":
            self._run.abort(text(event.get("message")) or "it failed", _cause(event.get("code")))
        elif member(event, "outcome.type") == "cancelled":
            self._run.abort("by its program", "cancel")
        elif interrupts:
            ids = [text(each, "toolCallId") for each in interrupts]
            hook = text(interrupts[0], "metadata.rxworker.hook") or text(interrupts[0], "reason")
            self._run.pause(text(interrupts[0], "message"), ids, hook=hook)
        elif members(event, "outcome.pendingToolCallIds"):
            self._run.pause(hook=CLIENT_TOOL)
        else:
            self._run.end()


def _cause(code: object) -> Cause:
    return cast("Cause", code) if code in get_args(Cause) else "error"
