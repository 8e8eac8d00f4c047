"""Messages of Python's logging as lines of JSON, without secrets of the environment. The standard library alone."""

from __future__ import annotations

import json
import logging
import re
import time

from rxworker.messages import JsonObject
from rxworker.redact import redact

# JSON does not escape these; a terminal may interpret some as the start of a command.
_LATE_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")
_OWN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


class JsonFormatter(logging.Formatter):
    """Formats a message as one line of JSON.

    ``time`` in UTC, ``level``, ``logger``, ``message``, its fields, and ``exception``, if there is one.

    The fields are those of the argument ``extra=``, and those that filters have added. In all texts, the values of
    environment variables with names of secrets, and the passwords of URLs, are replaced.

    >>> fields = {"name": "rxworker.worker", "levelname": "WARNING", "msg": "it ended", "run": "run-1"}
    >>> record = logging.makeLogRecord(fields)
    >>> json.loads(JsonFormatter().format(record))["run"]
    'run-1'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        fields: JsonObject = {
            "time": f"{moment}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name, value in vars(record).items():
            if name not in _OWN and name not in fields:
                is_number = value is None or isinstance(value, bool | int | float)
                fields[name] = value if is_number else redact(str(value))
        if record.exc_info:
            fields["exception"] = redact(self.formatException(record.exc_info))
        elif record.exc_text:  # without the secrets that it had
            fields["exception"] = record.exc_text
        return to_line(fields)


def to_line(value: JsonObject) -> str:
    r"""The value as one line of JSON without control characters.

    >>> to_line({"text": "京\n\x9b"})
    '{"text": "京\\n\\u009b"}'
    """
    return escape_controls(json.dumps(value, ensure_ascii=False))


def escape_controls(line: str) -> str:
    r"""JSON that means the same and can be shown.

    Without control characters, and without those that change the direction of writing.

    >>> escape_controls('"a\u202eb"')
    '"a\\u202eb"'
    """
    return _LATE_CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line)
