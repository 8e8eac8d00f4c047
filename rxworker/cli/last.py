"""What ``rxworker chat`` was called with last, so that it can be called without options."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace


class LastChat(Struct, frozen=True, omit_defaults=True):
    """The options of a chat that the next one without a provider has.

    It has no key: only the name of the variable that holds one. An address of a log may have a password.

    Attributes:
        provider: The name of the provider.
        model: The model's name.
        base_url: The address of the service.
        api_key_env: The environment variable that holds the key.
        log: The address of the log.
    """

    provider: str
    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    log: str | None = None


def chat_file() -> Path:
    """The file of it: ``rxworker/chat.json`` in the folder of states of the XDG Base Directory Specification."""
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "rxworker" / "chat.json"


def last_chat() -> LastChat | None:
    """What was remembered; ``None`` if there is nothing, or it cannot be read."""
    try:
        return msgspec.json.decode(chat_file().read_bytes(), type=LastChat)
    except (OSError, RuntimeError, UnicodeError, msgspec.DecodeError):
        return None


def remember_chat(chat: LastChat) -> None:
    """Remember it, with the file of a log as found from any folder.

    If the folder cannot be written, the chat goes on without it.
    """
    scheme, _, file = (chat.log or "").partition(":")
    if scheme == "sqlite":
        chat = replace(chat, log=f"sqlite:{Path(file).absolute()}")
    with suppress(OSError, RuntimeError, UnicodeError):
        path, data = chat_file(), msgspec.json.encode(chat)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        # An address may have a password, so that no other user reads it.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(data)
