"""Alerts to an address: a webhook, as the specification of Standard Webhooks describes it.

Each alert is one POST request, with a signature that its receiver checks. They are sent one after the other by a task
that runs while there are any, so that a value that has come back is never received before it was beyond its limit, and
a slow receiver keeps nothing waiting but the queue, which has a limit.

Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, version 1.0.0.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import time
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from datetime import UTC, datetime
from urllib.parse import urlsplit

from msgspec import to_builtins

from rxworker.boards.panel import AlertChange, one_name
from rxworker.errors import ConfigurationError, TransportError
from rxworker.messages.lenient_json import encode_lenient
from rxworker.messages.settings import check_number, check_type
from rxworker.providers.service import retry_after
from rxworker.transport import Retry

logger = logging.getLogger("rxworker.boards")

PREFIX = "whsec_"
SECRET_BYTES = range(24, 65)
SECONDS = 20.0
"""Seconds that a receiver has to answer; the specification recommends 15 to 30."""
RETRY = Retry(retries=15, first=1.0, maximum=600.0, patience=3600.0)
"""For about an hour and a half."""
GONE = 410


class Webhook:
    """Sends alerts to an address, signed, in order and without blocking: ``board.alerts.subscribe(webhook.send)``.

    The body is JSON: ``type``, which is ``alert.firing`` or ``alert.resolved``, ``timestamp``, and ``data`` with the
    members of the `AlertChange`. The headers ``webhook-id``, ``webhook-timestamp`` and ``webhook-signature`` are those
    of the specification, for which there are libraries in many languages. The id is made from the alert, so that two
    servers over one log, and one that was restarted, send the same alert under the same id.

    An answer other than 2xx, or none, is a failure, after which the request is made again. A redirect is not followed.
    An address that answers 410 receives nothing more. An alert that is given up is logged as an error, and so is the
    oldest one of a full queue, which is dropped.

    Args:
        url: The address; it is not logged beyond its host.
        secret: The secret that signs, in base64, with or without ``whsec_`` before it; several while one takes the
            place of another.
        retry: How often an alert is sent again, and after which delays; by default for about an hour and a half.
        limit: The maximum number of alerts that wait, with the one that is being sent.

    Raises:
        ConfigurationError: The address is not an HTTP address, a secret is not the base64 of 24 to 64 bytes, or the
            limit is not a number from 2 up.

    Example:
        >>> Webhook("https://example.com/hooks/a1b2", secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
        Webhook(example.com, 0 waiting)
    """

    def __init__(self, url: str, *, secret: str | Iterable[str], retry: Retry = RETRY, limit: int = 256) -> None:
        self._url, self._host = url, _host_of(url)
        check_type("retry", retry, Retry, "retry=Retry(...)")
        check_number("limit", limit, least=2, whole=True)
        secrets = [secret] if isinstance(secret, str) else secret
        if not isinstance(secrets, Iterable) or not (keys := [*map(_key_of, secrets)]):  # pyright: ignore[reportUnnecessaryIsInstance] - unchecked callers
            raise ConfigurationError("a webhook needs a secret, a text in base64")
        self._keys = keys
        self._retry, self._limit = retry, limit
        self._waiting: deque[AlertChange] = deque()
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def __repr__(self) -> str:
        return f"Webhook({self._host}, {len(self._waiting)} waiting)"

    def send(self, change: AlertChange) -> None:
        """Send an alert soon. Returns at once; what fails is logged.

        Args:
            change: The alert; on an event loop.
        """
        if self._is_closed:
            self._drop(change, "it is closed")
            return
        if len(self._waiting) >= self._limit:
            oldest = self._waiting[1]  # the first one is being sent
            del self._waiting[1]
            self._drop(oldest, f"{self._limit} alerts wait")
        self._waiting.append(change)
        if self._task is None or self._task.done():
            loop = asyncio.get_running_loop()
            # A context of its own: it must not keep the run that has caused the alert.
            self._task = loop.create_task(self._send_all(), name="rxworker webhook", context=Context())

    async def close(self, seconds: float = 5.0) -> None:
        """Send what waits, and nothing after that.

        Args:
            seconds: How long at most. What then still waits is dropped, and logged.
        """
        self._is_closed = True
        if self._task is not None:
            await asyncio.wait([self._task], timeout=seconds)
            self._task.cancel()
            await asyncio.wait([self._task])
        self._drop_all("it is closed")

    async def __aenter__(self) -> Webhook:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _send_all(self) -> None:
        while self._waiting:
            change = self._waiting[0]
            why = await self._deliver(change)
            if self._waiting and self._waiting[0] is change:
                self._waiting.popleft()
            if why:
                self._drop(change, why)

    async def _deliver(self, change: AlertChange) -> str:
        """Send an alert until it is received; gives why it was given up."""
        id_, body = _message_of(change)
        attempt = 1
        while True:
            if (failure := await self._post(id_, body)) is None:
                return ""
            if not failure.retryable:
                self._is_closed = True
                self._drop_all(f"{failure}")
                return ""
            if (delay := self._retry.delay(failure, attempt)) is None:
                return f"{failure}"
            logger.warning(
                "an alert was not received at %s: %s. It is sent again in %g s",
                self._host,
                failure,
                delay,
                extra={"panel": change.panel},
            )
            await asyncio.sleep(delay)
            attempt += 1

    async def _post(self, id_: str, body: bytes) -> TransportError | None:
        """Send a request; gives why it has failed."""
        from rxworker.transport.session import proxy_for, shared_session, unchanged  # it imports aiohttp

        now = str(int(time.time()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": id_,
            "webhook-timestamp": now,
            "webhook-signature": " ".join(_signature(key, id_, now, body) for key in self._keys),
        }
        try:
            session = await shared_session()
            async with (
                asyncio.timeout(SECONDS),
                session.post(
                    unchanged(self._url),
                    data=body,
                    headers=headers,
                    allow_redirects=False,  # it would carry the alert to another host
                    proxy=proxy_for(self._url),
                ) as response,
            ):
                if 200 <= response.status < 300:
                    return None
                message = f"it answered {response.status}"
                wait = retry_after({k.lower(): v for k, v in response.headers.items()})
                return TransportError(
                    message,
                    retryable=response.status != GONE,
                    # A wait that is too long does not give the alert up.
                    retry_after=wait and min(wait, self._retry.patience),
                )
        except TimeoutError:
            return TransportError(f"no answer within {SECONDS:g} s", retryable=True)
        except Exception as error:
            # Of any kind, since the alerts after it wait. Its text may have the address.
            return TransportError(type(error).__name__, retryable=True)

    def _drop_all(self, why: str) -> None:
        while self._waiting:
            self._drop(self._waiting.popleft(), why)

    def _drop(self, change: AlertChange, why: str) -> None:
        logger.error(
            "an alert is not sent to %s: %s: %s is %s its limit: %s",
            self._host,
            why,
            one_name(change),
            "beyond" if change.is_firing else "within",
            change.value,
            extra={"panel": change.panel},
        )


def _message_of(change: AlertChange) -> tuple[str, bytes]:
    """The id and the body of an alert."""
    data = to_builtins(change)
    if not change.missing:
        del data["missing"]
    digest = hashlib.sha256(encode_lenient(data)).digest()
    body = {
        "type": "alert.firing" if change.is_firing else "alert.resolved",
        "timestamp": datetime.fromtimestamp(change.time, UTC).isoformat(),
        "data": data,
    }
    return f"alert_{digest.hex()[:32]}", encode_lenient(body)


def _signature(key: bytes, id_: str, now: str, body: bytes) -> str:
    digest = hmac.digest(key, b".".join([id_.encode(), now.encode(), body]), "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"


def _host_of(url: str) -> str:
    """The host of an address.

    Raises:
        ConfigurationError: It is not an HTTP address.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return str(parts.hostname)
    except (ValueError, TypeError, AttributeError):  # such as a bracket that is not closed
        pass
    raise ConfigurationError("url is not an address such as https://example.com/alerts")


def _key_of(secret: str) -> bytes:
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError, TypeError, AttributeError):  # no base64, or no text
        key = b""
    if len(key) not in SECRET_BYTES:
        # Not with `from`: the error must not have the secret.
        raise ConfigurationError(
            "the secret of a webhook is 24 to 64 bytes in base64: make one with `python -c 'import base64, secrets;"
            ' print("whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())\'`'
        )
    return key
