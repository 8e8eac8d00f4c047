"""The interface of tools: the attributes of an object that a model may call."""

from __future__ import annotations

import math
import typing
from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from rxworker.errors import ConfigurationError, ExecutionFailedError
from rxworker.events.arguments import text_parameter
from rxworker.messages import JsonObject, ToolMeta, ToolResult
from rxworker.messages.content import NAME, ResultContent
from rxworker.messages.settings import check_number
from rxworker.tools.context import ToolContext

# About 25,000 tokens of English text: much for one result, and little beside the context of a model.
MAX_OUTPUT = 100_000
Effect: TypeAlias = Literal["write", "idempotent", "pure"]
"""The effect of a call: ``write`` changes something, ``idempotent`` may be repeated, ``pure`` only reads."""


class ToolPolicy(Struct, frozen=True):
    """How a tool may be run.

    Attributes:
        timeout: Seconds until a call is given up; ``None``: never.
        effect: ``write`` changes something, ``idempotent`` does too but may be repeated, ``pure`` only looks and may
            start while the model still streams.
        retries: How many more times a failed call is made before the model reads its error.
        requires_approval: Whether a person must approve each call; a run pauses before it.
        barrier: Whether a call runs alone: those before it end first, those after it wait.
        max_output: Characters of text of a result that are sent to the model, of an error too; what is beyond is left
            out, with a note. Pictures and documents are kept whole or left out: together they may have a hundred times
            as many characters of base64. ``None`` sends everything.
    """

    timeout: float | None = None
    effect: Effect = "write"
    retries: int = 0
    requires_approval: bool = False
    barrier: bool = False
    max_output: int | None = MAX_OUTPUT

    @property
    def starts_early(self) -> bool:
        """Whether a call may start while the model still streams.

        It has no effects, may run beside others and needs no approval.
        """
        return self.effect == "pure" and not self.barrier and not self.requires_approval


class Tool(Protocol):
    """Something the model may call. It may also have a ``policy``, a `ToolPolicy`, and ``reconcile``, a `Reconcile`."""

    @property
    def meta(self) -> ToolMeta:
        """The description for the model."""
        ...

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> ResultContent | ToolResult:
        """Run it with the JSON text of its arguments; free text comes as the one member of an object.

        Returns:
            The content of the result; or a `ToolResult`, which may be an error. Its id and its name are filled in.

        Raises:
            InvalidArgumentError: The arguments do not fit.
            ExecutionFailedError: It failed. Any other exception is taken for that, too.
        """
        ...


class Done(Struct, frozen=True):
    """The return value of `Reconcile` for a call that had its effect.

    Attributes:
        content: The result for the model.
        is_error: Whether the result is an error.
    """

    content: ResultContent
    is_error: bool = False


class NotDone(Struct, frozen=True):
    """The return value of `Reconcile` for a call that had no effect; the call is made again."""


class Unknown(Struct, frozen=True):
    """The return value of `Reconcile` if it cannot find out.

    Attributes:
        reason: Shown to users.
    """

    reason: str = ""


Reconciled: TypeAlias = Done | NotDone | Unknown
Reconcile: TypeAlias = Callable[[str, JsonObject], Reconciled | Awaitable[Reconciled]]
"""Finds out whether a call had its effect whose process ended before its result was stored.

From its idempotency key and its arguments.
"""


USUAL = ToolPolicy()
"""The policy of most tools. It is one object, so that a check of identity is enough."""


def policy_of(tool: Tool | None) -> ToolPolicy:
    """How a tool may be run; the default if it has none, or is missing."""
    policy = getattr(tool, "policy", None)
    return policy if isinstance(policy, ToolPolicy) else USUAL


def reconcile_of(tool: Tool | None) -> Reconcile | None:
    """The function that finds out whether a call had its effect, if the tool has one."""
    return getattr(tool, "reconcile", None)


def check_name(name: str) -> str:
    """The name of a tool, if every provider accepts it.

    Raises:
        ConfigurationError: One does not.
    """
    if NAME.fullmatch(name) is None:
        raise ConfigurationError(
            f"{name!r} cannot be the name of a tool: providers take 1 to 64 letters, digits, underscores and hyphens; "
            "give it such a name"
        )
    return name


def check_meta(meta: ToolMeta) -> ToolMeta:
    """The description of a tool for the model, if it is valid.

    Raises:
        ConfigurationError: The tool takes free text, and its schema has not just one string; or its native form has no
            type.
    """
    native = cast("object", meta.native)
    if native is not None and not (isinstance(native, dict) and cast("JsonObject", native).get("type")):
        raise ConfigurationError(
            f"tool {meta.name!r} has native={native!r:.60}; give the type by which its provider knows it, for example "
            'native={"type": "memory_20250818"}',
            page="tools",
        )
    if meta.format is not None and text_parameter(meta) is None:
        raise ConfigurationError(
            f"tool {meta.name!r} takes free text (format=...), so it needs exactly one parameter of type str for it"
        )
    return meta


def check_policy(policy: ToolPolicy) -> ToolPolicy:
    """The policy, if it makes sense; for what is usual the one that is `USUAL`.

    Raises:
        ConfigurationError: It does not.
    """
    timeout, effect, retries = policy.timeout, policy.effect, policy.retries
    for name in ("requires_approval", "barrier"):
        flag: object = getattr(policy, name)
        if not isinstance(flag, bool):
            raise ConfigurationError(f"{name}={flag!r}: give True or False")
    if timeout is not None and not (timeout > 0 and math.isfinite(timeout)):
        raise ConfigurationError(f"timeout={timeout!r}: give seconds above 0, or None for no time-out")
    if effect not in typing.get_args(Effect):
        raise ConfigurationError(f"effect={effect!r}: give one of {typing.get_args(Effect)}")
    if retries < 0 or (retries and effect == "write"):
        raise ConfigurationError(
            f"retries={retries!r}: only a tool that may be repeated can be retried; declare it with "
            "effect='idempotent' or effect='pure'"
        )
    check_number("max_output", policy.max_output, least=1, whole=True, optional=True)
    return USUAL if policy == USUAL else policy


def check_members(tool: Tool) -> None:
    """Check what a tool object may have besides its description: a policy that is ignored would allow what it forbids.

    Raises:
        ConfigurationError: The policy is not a `ToolPolicy` or makes no sense, or ``reconcile`` cannot be called.
    """
    name = tool.meta.name
    policy, reconcile = getattr(tool, "policy", None), reconcile_of(tool)
    if policy is not None and not isinstance(policy, ToolPolicy):
        raise ConfigurationError(f"the policy of tool {name!r} is {policy!r:.60}; give ToolPolicy(...)")
    if policy is not None:
        check_policy(policy)
    if reconcile is not None and not callable(reconcile):
        raise ConfigurationError(
            f"the reconcile of tool {name!r} is {reconcile!r:.60}; give a function of the key and the arguments"
        )


class ClientTool:
    """A tool that a client runs, for example a page in a browser.

    The other calls of the response run first; then the run pauses, with ``client_tool`` as the hook. The result of the
    client is an `Answer` to the call: ``worker.resume(decisions={call.id: Answer(...)})``.

    Args:
        meta: The description for the model.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel, call
        >>> from rxworker import Answer
        >>> schema = {"type": "object", "properties": {"url": {"type": "string"}}}
        >>> open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", schema))
        >>> worker = Worker(ScriptedModel([call("open_tab", url="/help"), "It is open."]), tools=[open_tab])
        >>> paused = worker.run_sync("Help!")
        >>> paused.hook, paused.pending[0].input
        ('client_tool', {'url': '/help'})
        >>> worker.in_script(worker.resume, decisions={paused.pending[0].id: Answer("done")}).text
        'It is open.'
    """

    def __init__(self, meta: ToolMeta) -> None:
        self.meta = meta

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        """Fail: only the client can run it.

        Raises:
            ExecutionFailedError: Always; a hook has called it, or another tool.
        """
        del input_json
        raise ExecutionFailedError("only the client can run this tool", tool=context.tool)
