"""A paused run as bytes, to be resumed later or elsewhere.

The bytes are JSON with a version and a seal. The seal is a digest of the rest: what was changed on the way is refused. Without
a key the seal finds accidents; with one, which only the application knows, it finds forgeries, too.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec
from msgspec import Struct

from rxworker.errors import ConfigurationError, LocalProtocolError
from rxworker.worker.result import Paused

VERSION = 2
"""Version 1 did not know which hooks had been asked, and its seal left out the version."""


class _Envelope(Struct, frozen=True):
    version: int
    seal: str
    state: msgspec.Raw


def save_paused(paused: Paused[Any], *, key: bytes | None = None) -> bytes:
    """The paused run as JSON.

    Args:
        paused: The result of a run that was paused. A value of a type that was asked for is not there yet, and not kept.
        key: A secret of the application's; the same is needed to load it.

    Raises:
        LocalProtocolError: It holds something that is no JSON, such as half of a surrogate pair or a variable that is an object of
            the program; the message names it.
        ConfigurationError: The key is empty or not bytes, or ``paused`` is not a `Paused`.
    """
    _check_key(key)
    if not isinstance(paused, Paused):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
        raise ConfigurationError(
            f"paused is {paused!r:.60}; only a result of type Paused can be saved"
        )
    for name, value in paused.variables.items():
        _check_json(name, value)
    try:
        state = msgspec.json.encode(paused)
    except (TypeError, UnicodeError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"this paused run cannot be saved: {error}") from error
    return msgspec.json.encode(_Envelope(VERSION, _seal(VERSION, state, key), msgspec.Raw(state)))


def load_paused(data: bytes | str, *, key: bytes | None = None) -> Paused[None]:
    """What `save_paused` has made.

    Raises:
        LocalProtocolError: It is none, was changed, was sealed with another key, or is of a newer version.
        ConfigurationError: The key is empty, or no bytes.
    """
    _check_key(key)
    try:
        raw = data.encode() if isinstance(data, str) else data
        version = msgspec.json.decode(raw, type=_Version).version
        if version > VERSION:
            raise LocalProtocolError(
                f"this paused run is of version {version}, and this rxworker knows versions up to {VERSION}: "
                "resume it with the rxworker that saved it, or a newer one"
            )
        envelope = msgspec.json.decode(raw, type=_Envelope)
    except (msgspec.DecodeError, UnicodeError, RecursionError, TypeError) as error:
        raise LocalProtocolError(f"this is no paused run: {error}") from error
    state = bytes(envelope.state)
    seal = _seal(version, state, key)
    # As bytes: a seal that was tampered with may be any text.
    if not hmac.compare_digest(seal.encode(), envelope.seal.encode(errors="replace")):
        raise LocalProtocolError(
            "this paused run was changed after it was saved, or was saved with another key: "
            "what was approved may not be what would run, so it is not resumed"
        )
    try:
        return msgspec.json.decode(state, type=Paused[None])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise LocalProtocolError(f"this is no paused run: {error}") from error


def _check_json(name: str, value: object) -> None:
    """Refuse a variable that would come back as something else, such as a tuple, a date, or an object of the program."""
    try:
        is_kept = msgspec.json.decode(msgspec.json.encode({name: value})) == {name: value}
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        is_kept = False
    if not is_kept:
        raise LocalProtocolError(
            f"this paused run cannot be saved: the variable {name!r} is a {type(value).__name__} that JSON does not keep as it is; "
            "keep texts, numbers, booleans, None, lists and dicts of these, or remove it before the run pauses"
        )


class _Version(Struct, frozen=True):
    version: int


def _check_key(key: object) -> None:
    """An empty key would seal nothing. It comes from an environment variable that is not set."""
    if key is not None and not (isinstance(key, bytes) and key):
        # Not with its value: it may be the secret as a text.
        what = "empty" if isinstance(key, bytes) else f"of type {type(key).__name__}"
        raise ConfigurationError(
            f"key is {what}: give the secret that save_paused and load_paused share as bytes, for example "
            "key=os.environ['PAUSED_RUN_KEY'].encode(), or leave key out to find accidents only"
        )


def _seal(version: int, state: bytes, key: bytes | None) -> str:
    sealed = state if version == 1 else b"%d:%b" % (version, state)
    return hmac.new(key or b"rxworker", sealed, hashlib.sha256).hexdigest()


__all__ = ["load_paused", "save_paused"]
