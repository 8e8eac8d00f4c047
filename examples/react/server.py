"""One worker for the two pages of this folder.

``chat.html`` with useChat, and ``agui.html`` with assistant-ui over AG-UI.

npm install --no-package-lock --prefix examples/react && npm run --prefix examples/react build
python examples/react/server.py, then http://127.0.0.1:8000/chat.html
"""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

from rxworker import Worker, tool
from rxworker.messages import JsonObject, ToolMeta
from rxworker.providers import Anthropic, Provider
from rxworker.tools import ClientTool, ToolContext
from rxworker.transport import Model
from rxworker.ui.web import Workers, make_app

PAGES = Path(__file__).parent / "dist"
COLOR: JsonObject = {"type": "object", "properties": {"color": {"type": "string"}}}


@tool
def add_step(title: str, context: ToolContext) -> str:
    """Add a step to the plan that the user sees."""
    context.set_shared_state(title, "/steps/-")
    return f"The steps are {context.shared_state}."


@tool(requires_approval=True)
def send_mail(to: str) -> str:
    """Send the plan to this address."""
    return f"Sent to {to}."


paint = ClientTool(ToolMeta("paint", "Paint the page of the user.", COLOR))


def make_worker(model: Provider | Model | None = None) -> Worker:
    """A worker for each conversation."""
    return Worker(
        model or Anthropic("claude-sonnet-5-5"), tools=[add_step, send_mail, paint], shared_state={"steps": ()}
    )


def make_site(workers: Workers = make_worker) -> web.Application:
    """The pages, and the worker below ``/worker``."""
    site = web.Application()
    site.add_subapp("/worker/", make_app(workers))
    site.router.add_static("/", PAGES)
    return site


if __name__ == "__main__":
    web.run_app(make_site(), host="127.0.0.1", port=8000)
