"""A run in a web page made with NiceGUI. Each tab is a watcher of the same run, however late it is opened.

Needs ``pip install nicegui``, and no key: the model is scripted.
"""

# pyright: reportUnknownMemberType=false
import os

from nicegui import app, ui

from rxworker import Run, Worker
from rxworker.events import TextDelta, Usage
from rxworker.testing import ScriptedModel

MODEL = ScriptedModel(["The moon is a stone that shines. The sun does the work."], delay=0.05)
runs: list[Run] = []


@app.on_startup
async def begin() -> None:
    runs.append(Worker(MODEL).run("Describe the moon."))


@ui.page("/")
async def page() -> None:
    text, tokens = ui.label(), ui.label("0 tokens")
    await ui.context.client.connected()
    async for record in runs[0].watch():
        match record.event:
            case TextDelta(text=piece):
                text.text += piece
            case Usage(total_tokens=total):
                tokens.text = f"{total} tokens"
            case _:
                pass


if __name__ in ("__main__", "__mp_main__"):
    ui.run(host="127.0.0.1", port=int(os.environ.get("PORT", "8080")), reload=False, show=False)
