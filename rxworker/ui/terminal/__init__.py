"""The terminal app: a conversation with a worker in full screen. Requires the extra ``tui``."""

from rxworker.ui.terminal.run import run_app, run_app_async

__all__ = ["run_app", "run_app_async"]
