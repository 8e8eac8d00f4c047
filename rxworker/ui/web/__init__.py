"""The web server: a page and an API over the runs of workers."""

from rxworker.ui.web.app import make_app
from rxworker.ui.web.server import WebServer, serve
from rxworker.ui.web.settings import Settings
from rxworker.ui.web.workers import MakeWorker, Workers

__all__ = ["make_app", "serve", "MakeWorker", "Settings", "WebServer", "Workers"]
