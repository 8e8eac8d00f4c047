"""Tools that the client of a server runs, such as those in a request of Chat Completions."""

from __future__ import annotations

from rxworker.errors import ExecutionFailedError
from rxworker.messages import ToolMeta
from rxworker.tools.base import ToolPolicy
from rxworker.tools.context import ToolContext


class ClientTool:
    """A tool that a client runs. The run pauses before each call, and the client's result is an `Answer` to it.

    Args:
        meta: The description for the model.

    >>> ClientTool(ToolMeta("open_tab", "Open a tab.", {"type": "object"})).policy.requires_approval
    True
    """

    policy = ToolPolicy(requires_approval=True)

    def __init__(self, meta: ToolMeta) -> None:
        self.meta = meta

    async def execute(self, input_json: str | bytes, context: ToolContext, /) -> str:
        """Fail: only the client can run it.

        Raises:
            ExecutionFailedError: Always; a person has approved the call in place of the client.
        """
        del input_json
        raise ExecutionFailedError("only the client can run this tool", tool=context.tool)
