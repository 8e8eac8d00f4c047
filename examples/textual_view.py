"""A run in a terminal app made with Textual. Needs the extra ``tui``, and no key: the model is scripted."""

from textual.app import App, ComposeResult
from textual.widgets import Label, Log

from rxworker import Worker
from rxworker.events import TextDelta, Usage
from rxworker.testing import ScriptedModel

MODEL = ScriptedModel(["The moon is a stone that shines.\nThe sun does the work."], delay=0.02)


class View(App[None]):
    """The text as it comes, and what it took."""

    def compose(self) -> ComposeResult:
        """A log for the text, and a line for the tokens."""
        yield Log()
        yield Label("0 tokens")

    def on_mount(self) -> None:
        """Begin to watch."""
        self.run_worker(self.follow())  # Textual's sort of worker: a coroutine of the app

    async def follow(self) -> None:
        """Show each record as it comes."""
        async for record in Worker(MODEL).run("Describe the moon.").watch():
            match record.event:
                case TextDelta(text=piece):
                    self.query_one(Log).write(piece)
                case Usage(total_tokens=total):
                    self.query_one(Label).update(f"{total} tokens")
                case _:
                    pass


if __name__ == "__main__":
    View().run()
