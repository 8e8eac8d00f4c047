"""The web server: a page and an API over the runs of workers."""

from rxworker.ui.web.app import STATE, make_app
from rxworker.ui.web.guard import User
from rxworker.ui.web.request import WebRequest
from rxworker.ui.web.server import WebServer, serve
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.state import ServerState
from rxworker.ui.web.store import OnRun
from rxworker.ui.web.workers import MakeServedWorker, Workers

__all__ = [
    "make_app",
    "serve",
    "MakeServedWorker",
    "OnRun",
    "ServerState",
    "Settings",
    "STATE",
    "User",
    "WebRequest",
    "WebServer",
    "Workers",
]
