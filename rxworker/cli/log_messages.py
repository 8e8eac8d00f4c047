"""The messages of Python's logging on standard error, as lines of text or of JSON, for ``rxworker serve`` and ``rxworker work``.

Secrets of the environment and the passwords of addresses are replaced, also in tracebacks.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from rxworker.cli.process import to_line
from rxworker.messages import JsonObject
from rxworker.ui.clean import clean, redact


def log_messages(verbosity: str = "info", *, as_json: bool = False) -> None:
    """Write messages of all loggers to standard error, unless the program has set up logging already.

    Args:
        verbosity: The lowest level that is written, such as ``info``.
        as_json: One JSON object a line, in place of text.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    logging.basicConfig(level=verbosity.upper(), handlers=[handler])


class TextFormatter(logging.Formatter):
    """Formats a message as text: time, level, logger, message, and the traceback of an exception.

    >>> record = logging.LogRecord("rxworker.log", logging.INFO, "", 0, "opened %s", ("pg://me:secret@db",), None)
    >>> TextFormatter().format(record) # doctest: +ELLIPSIS
    '... INFO rxworker.log opened pg://(hidden)@db'
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """The message without secrets and control characters."""
        return clean(redact(super().format(record)))


class JsonFormatter(logging.Formatter):
    """Formats a message as one line of JSON: ``time`` (UTC), ``level``, ``logger``, ``message``, and ``exception`` if there is one.

    >>> record = logging.LogRecord("rxworker.log", logging.INFO, "", 0, "%s runs", (3,), None)
    >>> record.created = 1.5
    >>> JsonFormatter().format(record)
    '{"time": "1970-01-01T00:00:01.500+00:00", "level": "info", "logger": "rxworker.log", "message": "3 runs"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The message as JSON without secrets."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: JsonObject = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = redact(self.formatException(record.exc_info))
        return to_line(line)
