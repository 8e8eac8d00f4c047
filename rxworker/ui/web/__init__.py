"""The web server: a page and an API over the runs of workers."""

from rxworker.ui.web.guard import User
from rxworker.ui.web.http.request import WebRequest
from rxworker.ui.web.http.settings import Settings
from rxworker.ui.web.runs.workers import Workers
from rxworker.ui.web.server import STATE, WebServer, make_app, serve
from rxworker.ui.web.state import ServerOptions

__all__ = ["make_app", "serve", "ServerOptions", "Settings", "STATE", "User", "WebRequest", "WebServer", "Workers"]
