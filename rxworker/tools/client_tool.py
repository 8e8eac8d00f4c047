"""Tools that the client of a server runs, such as those in a request of Chat Completions."""

from __future__ import annotations

from rxworker.errors import ExecutionFailedError
from rxworker.messages import ToolMeta
from rxworker.tools.context import ToolContext


class ClientTool:
    """A tool that a client runs, for example a page in a browser.

    The other calls of the response run first; then the run pauses, with ``client_tool`` as the hook. The result of the client is an
    `Answer` to the call: ``worker.resume(decisions={call.id: Answer(...)})``.

    Args:
        meta: The description for the model.

    Example:
        >>> from rxworker import Worker
        >>> from rxworker.testing import ScriptedModel, call
        >>> from rxworker.worker import Answer
        >>> schema = {"type": "object", "properties": {"url": {"type": "string"}}}
        >>> open_tab = ClientTool(ToolMeta("open_tab", "Open a tab.", schema))
        >>> worker = Worker(ScriptedModel([call("open_tab", url="/help"), "It is open."]), tools=[open_tab])
        >>> paused = worker.run_sync("Help!")
        >>> paused.hook, paused.pending[0].input
        ('client_tool', {'url': '/help'})
        >>> worker.resume_sync(decisions={paused.pending[0].id: Answer("done")}).text
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
