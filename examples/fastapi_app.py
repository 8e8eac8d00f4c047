"""A FastAPI program with the page and the API of a worker below ``/desk``, and an address of its own that starts runs.

pip install '/path/to/the/checkout[uvloop]' fastapi uvicorn
uvicorn --app-dir examples --timeout-graceful-shutdown 2 fastapi_app:app
"""

from __future__ import annotations

from fastapi import FastAPI

from rxworker import Worker
from rxworker.adapters.asgi import AsgiApp
from rxworker.testing import ScriptedModel


def make_worker() -> Worker:
    return Worker(ScriptedModel(["The moon is a stone that shines."]))


desk = AsgiApp(make_worker)
app = FastAPI(lifespan=desk.lifespan)
app.mount("/desk", desk)


@app.post("/ask")
async def ask(question: str) -> dict[str, str]:
    """Answer a question. The run is also shown on the page, while it goes on."""
    run = make_worker().run(question)
    desk.state.add(run)
    return {"run": run.id, "answer": (await run).text}
