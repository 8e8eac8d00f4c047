"""What long-running commands report to standard error, as text or as JSON."""

from __future__ import annotations

import logging
import time
from typing import Literal

from rxworker.cli.process import to_line
from rxworker.messages import JsonObject
from rxworker.ui.clean import clean, redact

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["text", "json"]

TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def set_up_logging(level: Level = "info", form: Format = "text") -> None:
    """Write the messages of Python's logging to standard error, without secrets of the environment.

    Args:
        level: The least important messages to write.
        form: ``text``, or ``json`` for one object a line: ``time`` in UTC, ``level``, ``logger``, ``message``, and ``exception``, if there is one.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter(TEXT))
    logging.basicConfig(level=level.upper(), handlers=[handler])


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # An exception of a tool may contain anything, also commands for the terminal.
        return clean(redact(super().format(record)))


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: JsonObject = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            fields["exception"] = redact(self.formatException(record.exc_info))
        return to_line(fields)
