"""A worker as a tool of an MCP server: its name and arguments, and its calls, each of which starts a run.

Theory of operation. A run belongs to the request that started it: a request that is cancelled, or whose client has
disconnected, cancels its run. A run that pauses for approval needs a decision of the client's user. Until revision
2025-11-25 of the protocol the server sends a request of its own, also while the run goes on and a call in its
background waits, and the call goes on with the response. Since revision 2026-07-28 it cannot: once the run has paused,
the call ends with the form, and the client repeats it with the form filled in. The run is named
by the ``requestState`` of both, which the server encrypts, so that a client can decide about none but its own runs.

Sources: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation and
https://modelcontextprotocol.io/specification/2026-07-28/server/tools
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import Annotated
from uuid import uuid4

import anyio
import msgspec
from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from msgspec import Meta, Struct
from msgspec.structs import replace
from pydantic import ValidationError

from rxworker.decisions import Decision, Deny, PendingCalls, read_answer, read_form
from rxworker.desk.meanwhile import Meanwhile
from rxworker.errors import InputRefusedError, InvalidArgumentError, LocalProtocolError, LogError
from rxworker.events import BlockType, PauseState
from rxworker.events.pause import NO_PAUSE, UNTIL
from rxworker.hub import Coalesce
from rxworker.messages import Json, JsonObject, Message
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.settings import check_plain
from rxworker.operators.gate import expect_allowed
from rxworker.redact import format_error, redact
from rxworker.state import RunState
from rxworker.tools.base import check_name
from rxworker.tools.schema import schema_of
from rxworker.turn.result import Output, answer_of
from rxworker.ui.clean import clean, one_line
from rxworker.ui.describe import describe_call, describe_json
from rxworker.ui.web.http.responses import ApiError
from rxworker.ui.web.runs.entry import RunEntry
from rxworker.ui.web.runs.of_user import Runs
from rxworker.views import BlockView, CallView, RunView
from rxworker.worker.session import Worker

RUN = "rxworker/run"
"""The key of a result's ``_meta`` with the id of the run, its turns and its usage."""


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

    message: Annotated[
        str, Meta(min_length=1, description="The task or question, with everything that has to be known for it.")
    ]
    conversation: Annotated[
        str | None,
        Meta(description="To continue an earlier conversation with this tool: the id that its last result gave."),
    ] = None


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

    def describe(self) -> types.Tool:
        """The tool as a client lists it."""
        usual = f"Give a task to the agent {self.name!r}, and get its answer."
        return types.Tool(
            name=self.name,
            description=self.worker.description or _docstring(self.worker.make) or usual,
            input_schema=schema_of(Arguments),
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
        if entry.status != "finished":
            return self.failure(entry, f"The run failed: {redact(entry.reason)}")
        text = answer_of(entry.run.state.conversation)
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


logger = logging.getLogger("rxworker.adapters.mcp")

PACE = 0.25
"""Seconds between two notifications of progress, at least."""

KEPT = 32
"""How many items of a run are kept to describe its progress."""

MAX_LINE = 160
MAX_FORM = 4000
"""The maximum number of characters of a call that a person decides about; a longer one is cut, with a note."""

CLEANUP_SECONDS = 5.0

LEFT = "its client has cancelled the call, or has disconnected"
REFUSED = "the user has cancelled it"

APPROVAL = "approval"
"""The name of the form among the inputs that a call requires."""

FORM: JsonObject = {
    "type": "object",
    "required": ["approve"],
    "properties": {
        "approve": {"type": "boolean", "title": "Approve"},
        "reason": {"type": "string", "title": "Reason", "description": "For the model, if it is not approved."},
    },
}

NO_FORMS = (
    "Approval is needed, and this client cannot show its user a form (the capability elicitation of MCP). "
    "Use a client that can, or decide about it in the page of `rxworker serve` on the log of this server (--log). "
    "Nothing was run. What waits:\n"
)

NO_ANSWER = (
    "the answer to the form for approval is missing or is not an answer; nothing was decided: "
    'send {"action": "accept", "content": {"approve": true}}, or {"action": "decline"}'
)

Context = ServerRequestContext[object, object]


class Calls:
    """Serves the calls of the tools.

    Args:
        tools: The tools by their names.
        runs: The runs of the server.
    """

    def __init__(self, tools: Mapping[str, ServedTool], runs: Runs) -> None:
        self._tools = tools
        self._runs = runs
        self._gate = runs.store.settings.gate

    async def call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Serve a call: start a run, or resume one that waits, and return its result.

        Raises:
            MCPError: There is no such tool, or the form does not belong to a run that waits.
        """
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            name = one_line(params.name, 60)
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}; there are: {known}")
        try:
            result = await self._call(tool, context, params)
        except MCPError:
            raise
        except (InputRefusedError, InvalidArgumentError, LocalProtocolError, ApiError) as error:
            result = error_result(redact(str(error)))
        except (Exception, SystemExit) as error:  # SystemExit in a function of the program must not end the server
            number = secrets.token_hex(4)
            logger.error(
                "error %s: the tool %s failed\n%s",
                number,
                tool.name,
                format_error(error),
                extra={"error_id": number, "tool": tool.name},
            )
            result = error_result(f"The server failed; its log has the details under {number}.")
        if isinstance(result, types.InputRequiredResult):
            return result
        return types.CallToolResult.model_validate(result, by_name=False)

    async def _call(
        self, tool: ServedTool, context: Context, params: types.CallToolRequestParams
    ) -> JsonObject | types.InputRequiredResult:
        responses = params.input_responses or {}
        await expect_allowed(self._gate, [params.arguments, *_contents(responses)])
        if params.request_state is None:
            entry = await self._start(tool, tool.read(params.arguments))
        else:
            entry = await self._decide(params.request_state, responses)
        progress, meanwhile = Progress(context), Meanwhile(partial(self._ask, context))
        try:
            while (entry := await self._follow(progress, meanwhile, entry)).status == "paused":
                entry = await self._runs.find_paused(entry.id)
                pending = entry.pending
                decided = await meanwhile.answered(entry.run.state.pause or NO_PAUSE)
                if decided is None:
                    await self._runs.cancel(entry, REFUSED)
                    break
                if pending.hook == UNTIL and not decided:
                    return tool.failure(entry, f"The run waits: {entry.reason}")
                if pending.by_client or (decided and not pending.own):
                    given = [decided.get(at, one) for at, one in enumerate(pending.without_client())]
                    entry = await self._runs.resume(entry, given)
                    continue
                left = _without(pending, decided)
                forms = _forms_of(left, entry.run.state.pause)
                if not all(_can_show(context, form) for form in forms.values()):
                    return tool.failure(entry, NO_FORMS + _question(left, entry.run.state.pause))
                if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    requests: types.InputRequests = {k: types.ElicitRequest(params=f) for k, f in forms.items()}
                    return types.InputRequiredResult(input_requests=requests, request_state=entry.id)
                entry = await self._decide(entry.id, await self._answers(context, forms), decided)
        except asyncio.CancelledError:
            if entry.here is not None and not entry.here.done():
                entry.here.cancel(reason=LEFT)
            # Dismissed, if it is paused. The package cancels again at every await, unless it is shielded.
            with anyio.move_on_after(CLEANUP_SECONDS, shield=True), suppress(ApiError, LogError):
                await self._runs.cancel(entry, LEFT)
            raise
        finally:
            question = meanwhile.close()
        if question is not None:  # the client learns that it is withdrawn before the result ends its stream
            await asyncio.wait({question}, timeout=CLEANUP_SECONDS)
        return tool.result(entry)

    async def _start(self, tool: ServedTool, given: Arguments) -> RunEntry:
        """Start a run: the first of a conversation, or the next."""
        runs = self._runs
        if given.conversation is None:
            conversation = runs.begin_conversation(tool.name)
        else:
            before = await runs.latest(given.conversation)
            if before.conversation.name != tool.name:
                raise ApiError(404, "no_run", f"{before.id} is not a conversation of {tool.name}")
            conversation = await runs.following(before, tool.name)
        conversation.output = tool.worker.output
        return runs.next_run(conversation, (Message.user(given.message),))

    async def _ask(self, context: Context, shown: PauseState) -> dict[int, Decision] | None:
        """Request the decisions about what waits in the background while the run goes on, if the client has forms."""
        pending = PendingCalls.of(shown)
        forms = _forms_of(pending, shown)
        if context.protocol_version in MODERN_PROTOCOL_VERSIONS or not all(
            _can_show(context, f) for f in forms.values()
        ):
            return {}
        decided = _decided(pending, await self._answers(context, forms))
        return None if decided is None else {at: each for at, each in enumerate(decided) if each is not None}

    async def _answers(self, context: Context, forms: Mapping[str, Form]) -> Mapping[str, object]:
        """The answers of the client's user.

        Raises:
            InputRefusedError: The gate of the server has not let one pass.
        """
        answers = {key: await _answer_to(context, form) for key, form in forms.items()}
        await expect_allowed(self._gate, _contents(answers))
        return answers

    async def _follow(self, progress: Progress, meanwhile: Meanwhile, entry: RunEntry) -> RunEntry:
        """Report the progress of a run until it ends, and return it as it is then."""
        view = RunView(keep=KEPT)
        await entry.accepted()
        await entry.open()
        try:
            async with aclosing(entry.run.watch(Coalesce(every=PACE), name="mcp").batches()) as batches:
                async for batch in batches:
                    for record in batch:
                        view.step(record)
                        meanwhile.look(entry.here, record.event)
                    await progress.report(entry, progress_line(view))
        except Exception:  # the last record has the error that ended the run
            if not entry.run.done():
                raise
        return await self._runs.settled(entry.id)

    async def _decide(
        self, run_id: str, answers: Mapping[str, object], before: Mapping[int, Decision] = {}
    ) -> RunEntry:
        """Resume a run with the answers of the client's user, or dismiss it.

        Raises:
            MCPError: An answer does not fit its form.
            ApiError: The run does not wait any more.
        """
        entry = await self._runs.find_paused(run_id)
        decided = _decided(_without(entry.pending, before), answers)
        if decided is None:
            await self._runs.cancel(entry, REFUSED)
            return entry
        return await self._runs.resume(entry, [before.get(at, one) for at, one in enumerate(decided)])


def _contents(answers: Mapping[str, object]) -> list[object]:
    return [getattr(each, "content", None) for each in answers.values()]


def _without(pending: PendingCalls, decided: Mapping[int, Decision]) -> PendingCalls:
    """What is still to be decided: an answer that was given while the run went on counts."""
    questions = {at: each for at, each in pending.questions.items() if at not in decided}
    return replace(pending, required=tuple([at for at in pending.required if at not in decided]), questions=questions)


def _decided(pending: PendingCalls, answers: Mapping[str, object]) -> list[Decision | None] | None:
    """What the client's user has decided; ``None`` if that is to cancel the run.

    Raises:
        MCPError: An answer does not fit its form.
    """
    keys = [_key_of(index) for index in pending.questions] or [APPROVAL]
    given = [each for key in keys if isinstance(each := answers.get(key), types.ElicitResult)]
    if len(given) < len(keys):
        raise MCPError(types.INVALID_PARAMS, NO_ANSWER)
    if any(each.action == "cancel" for each in given):
        return None
    if pending.questions:
        replies: list[Decision | None] = [None] * len(pending.calls)
        for (index, question), answer in zip(pending.questions.items(), given, strict=True):
            replies[index] = read_answer(question, answer.action, answer.content)
        return replies
    decision = read_form(given[0].content) if given[0].action == "accept" else Deny()
    if isinstance(decision, Deny):
        if not pending.required:
            return None
        decision = Deny(clean(decision.reason))
    # The form is about all of them.
    return [decision if at in pending.required else None for at in range(len(pending.calls))]


class Progress:
    """Sends the notifications of one call. Their numbers increase, also when its run pauses and another one resumes it.

    Args:
        context: The request of the call.
    """

    def __init__(self, context: Context) -> None:
        self._session = context.session
        self._number = 0
        self._last = ""

    async def report(self, entry: RunEntry, line: str) -> None:
        """Send a line, unless it was the last one."""
        if line and line != self._last:
            self._last = line
            self._number += 1
            hidden = msgspec.json.decode(entry.redact(msgspec.json.encode(line)))
            await self._session.report_progress(self._number, message=hidden)


Form = types.ElicitRequestFormParams | types.ElicitRequestURLParams


def _key_of(index: int) -> str:
    """The name of the form of a question among the inputs that a call requires."""
    return f"question_{index}"


def _forms_of(pending: PendingCalls, pause: PauseState | None) -> dict[str, Form]:
    """The forms that the client's user fills in, by their names: those of the questions, or that of the approval."""
    forms: dict[str, Form] = {}
    for index, question in pending.questions.items():
        about = f"{question.source} has a question, for {describe_call(pending.calls[index], MAX_FORM)}"
        message = clean(f"{about}\n{question.message}")
        forms[_key_of(index)] = (
            types.ElicitRequestURLParams(message=message, url=question.url, elicitation_id=uuid4().hex)
            if question.schema is None
            else types.ElicitRequestFormParams(message=message, requested_schema=question.schema)
        )
    return forms or {APPROVAL: types.ElicitRequestFormParams(message=_question(pending, pause), requested_schema=FORM)}


async def _answer_to(context: Context, form: Form) -> types.ElicitResult | None:
    """The answer of the client's user to the form; ``None`` if the client sends something else."""
    session, request = context.session, context.request_id
    try:
        if isinstance(form, types.ElicitRequestURLParams):
            return await session.elicit_url(form.message, form.url, form.elicitation_id or "", request)
        return await session.elicit_form(form.message, form.requested_schema, request)
    except ValidationError:
        return None


def _can_show(context: Context, form: Form) -> bool:
    """Whether the client can show its user a form."""
    session = context.session
    capabilities = session.client_capabilities
    forms = None if capabilities is None else capabilities.elicitation
    can_ask = session.can_send_request or context.protocol_version in MODERN_PROTOCOL_VERSIONS
    # A capability without modes means forms: it comes from before there was another mode.
    if forms is None or not can_ask:
        return False
    if isinstance(form, types.ElicitRequestURLParams):
        return forms.url is not None
    return forms.form is not None or forms.url is None


def _question(pending: PendingCalls, pause: PauseState | None) -> str:
    """The calls or the pause that a person decides about."""
    calls = [describe_call(pending.calls[index], MAX_FORM) for index in pending.required]
    what = f"Run {', and '.join(calls)}?" if calls else "Continue?"
    reason = "" if pause is None else pause.reason
    return clean(f"{what}\n{reason}".rstrip())


def progress_line(view: RunView) -> str:
    """The present activity of a run, in one line: its running tools, or the end of the text so far.

    Empty if there is nothing to show.

    >>> from rxworker.events import Record, TextDelta
    >>> view = RunView()
    >>> _ = view.step(Record(seq=1, run_id="r", turn=1, attempt=1, time=5.0, event=TextDelta(0, "Two cities,")))
    >>> progress_line(view)
    'Two cities,'
    """
    items = [item for item in view.items if isinstance(item, BlockView)]
    running = [item for item in items if isinstance(item, CallView) and item.stage == "running"]
    if running:
        return one_line(", ".join(map(_call_line, running)), MAX_LINE)
    if not items:
        return ""
    item = items[-1]
    if isinstance(item, CallView):
        return f"{item.block.tool} {item.stage}" if item.is_over else f"calls {item.block.tool}"
    text = "".join(item.pieces[-MAX_LINE:])
    shown = one_line(text[-MAX_LINE:])
    if len(text) > MAX_LINE:
        shown = f"...{shown.partition(' ')[2]}"
    return f"(thinking) {shown}" if shown and item.block.block_type is BlockType.THINKING else shown


def _call_line(item: CallView) -> str:
    name = item.block.tool if item.call is None else describe_call(item.call, MAX_LINE)
    return f"{name}: {describe_json(item.progress)}" if item.reports else name
