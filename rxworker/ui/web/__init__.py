"""The web server: a page and an API over the runs of workers."""

from rxworker.ui.web.app import make_app
from rxworker.ui.web.guard import User
from rxworker.ui.web.runs import MakeServedWorker, Workers
from rxworker.ui.web.server import WebServer, serve
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.state import STATE, ServerState
from rxworker.ui.web.store import OnRun

__all__ = [
    "make_app",
    "serve",
    "MakeServedWorker",
    "OnRun",
    "ServerState",
    "Settings",
    "STATE",
    "User",
    "WebServer",
    "Workers",
]
