"""Webhooks.

What is sent is what the specification describes, in order, and no alert is lost without a line in the log.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from openai import InvalidWebhookSignatureError
from reactivex.subject import Subject

from rxworker.boards import AlertChange, Webhook
from rxworker.errors import ConfigurationError
from rxworker.transport import Retry

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
OTHER = "whsec_" + base64.b64encode(bytes(range(32))).decode()
AT_ONCE = Retry(retries=3, first=0.0)
FIRING = AlertChange("cost", 1700000000.5, 0.06, is_firing=True, group="small", board="desk")


def change(number: int) -> AlertChange:
    return AlertChange("cost", float(number), number, is_firing=bool(number % 2), board="desk")


class Receiver:
    """A server that receives alerts."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = [*statuses]
        self.bodies: list[bytes] = []
        self.headers: list[Mapping[str, str]] = []
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.asked = asyncio.Event()
        self.url = ""
        self.answers: dict[str, str] = {}

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(await request.read())
        self.headers.append(request.headers)
        self.asked.set()
        await self.may_answer.wait()
        status = self._statuses.pop(0) if self._statuses else 204
        return web.Response(status=status, headers={"Location": self.url, **self.answers})

    @property
    def values(self) -> list[float]:
        return [json.loads(body)["data"]["value"] for body in self.bodies]


@asynccontextmanager
async def receiving(*statuses: int) -> AsyncGenerator[Receiver, None]:
    receiver = Receiver(*statuses)
    app = web.Application()
    app.router.add_route("*", "/hooks/hidden", receiver.handle)
    async with TestServer(app, host="127.0.0.1") as server:
        receiver.url = str(server.make_url("/hooks/hidden"))
        yield receiver


@pytest.mark.parametrize("secrets", [SECRET, SECRET.removeprefix("whsec_"), [OTHER, SECRET]])
async def test_an_official_client_verifies_what_is_sent(secrets: str | list[str]) -> None:
    verifier = openai.OpenAI(api_key="none", webhook_secret=SECRET).webhooks
    async with receiving() as receiver:
        async with Webhook(receiver.url, secret=secrets) as webhook:
            webhook.send(FIRING)
        [body], [headers] = receiver.bodies, receiver.headers
        verifier.verify_signature(body, headers)
        with pytest.raises(InvalidWebhookSignatureError):
            verifier.verify_signature(body + b" ", headers)
        assert headers["Content-Type"] == "application/json"
        assert json.loads(body) == {
            "type": "alert.firing",
            "timestamp": "2023-11-14T22:13:20.500000+00:00",
            "data": {
                "panel": "cost",
                "time": 1700000000.5,
                "value": 0.06,
                "is_firing": True,
                "group": "small",
                "board": "desk",
            },
        }


async def test_a_failure_is_sent_again_with_its_id_and_a_new_time_and_later_ones_wait() -> None:
    async with receiving(500, 302, 404) as receiver:
        async with Webhook(receiver.url, secret=SECRET, retry=AT_ONCE) as webhook:
            alerts = Subject[AlertChange]()
            alerts.subscribe(webhook.send)
            alerts.on_next(change(1))
            alerts.on_next(change(2))
        assert receiver.values == [1, 1, 1, 1, 2]
        ids = [headers["webhook-id"] for headers in receiver.headers]
        assert len(set(ids)) == 2
        assert ids.index(ids[-1]) == 4
        types = [json.loads(body)["type"] for body in receiver.bodies]
        assert types == ["alert.firing"] * 4 + ["alert.resolved"]


async def test_two_servers_send_the_same_alert_under_the_same_id() -> None:
    async with receiving() as receiver:
        for _ in range(2):
            async with Webhook(receiver.url, secret=SECRET) as webhook:
                webhook.send(FIRING)
        one, other = (headers["webhook-id"] for headers in receiver.headers)
        assert one == other
        assert "." not in one


async def test_what_is_given_up_is_logged_and_the_next_one_is_sent(caplog: Any) -> None:
    async with receiving(*[503] * 4) as receiver:
        async with Webhook(receiver.url, secret=SECRET, retry=AT_ONCE) as webhook:
            webhook.send(change(1))
            webhook.send(change(2))
        assert receiver.values == [1, 1, 1, 1, 2]
    [lost] = errors(caplog)
    assert lost == ("an alert is not sent to 127.0.0.1: it answered 503: cost is beyond its limit: 1")
    assert_no_secret(caplog.text, receiver, webhook)


async def test_an_address_that_is_gone_receives_nothing_more(caplog: Any) -> None:
    async with receiving(410) as receiver:
        webhook = Webhook(receiver.url, secret=SECRET, retry=AT_ONCE)
        for number in (1, 2):
            webhook.send(change(number))
        await receiver.asked.wait()
        await webhook.close()
        webhook.send(change(3))
        assert receiver.values == [1]
    assert len(errors(caplog)) == 3


async def test_a_slow_receiver_keeps_nothing_waiting_and_the_oldest_that_wait_are_dropped(caplog: Any) -> None:
    async with receiving() as receiver:
        receiver.may_answer.clear()
        async with Webhook(receiver.url, secret=SECRET, limit=3) as webhook:
            webhook.send(change(1))
            await receiver.asked.wait()
            for number in range(2, 7):
                webhook.send(change(number))
            assert repr(webhook) == "Webhook(127.0.0.1, 3 waiting)"
            receiver.may_answer.set()
        assert receiver.values == [1, 5, 6]
    lost = [line.rpartition(" ")[2] for line in errors(caplog)]
    assert lost == ["2", "3", "4"]


async def test_what_waits_when_it_is_closed_is_logged(caplog: Any) -> None:
    async with receiving() as receiver:
        receiver.may_answer.clear()
        webhook = Webhook(receiver.url, secret=SECRET)
        webhook.send(change(1))
        webhook.send(change(2))
        await receiver.asked.wait()
        await webhook.close(0)
        receiver.may_answer.set()
    assert len(errors(caplog)) == 2


async def test_no_secret_is_logged_if_nothing_listens(caplog: Any) -> None:
    async with receiving() as receiver:
        pass
    async with Webhook(receiver.url, secret=SECRET, retry=AT_ONCE) as webhook:
        webhook.send(change(1))
    [lost] = errors(caplog)
    assert "ClientConnectorError" in lost
    assert_no_secret(caplog.text, receiver, webhook)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: Webhook("ftp://h/x", secret=SECRET), "not an address"),
        (lambda: Webhook("https:///x", secret=SECRET), "not an address"),
        (lambda: Webhook("https://h", secret="whsec_c2hvcnQ="), "24 to 64 bytes"),
        (lambda: Webhook("https://h", secret="my password"), "24 to 64 bytes"),
        (lambda: Webhook("https://h", secret=[]), "needs a secret"),
        (lambda: Webhook("https://h", secret=SECRET, limit=1), "limit"),
    ],
)
def test_mistakes_are_reported_where_they_are_made(make: Callable[[], Webhook], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected) as caught:
        make()
    assert "my password" not in str(caught.value)


def errors(caplog: Any) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]


def assert_no_secret(text: str, receiver: Receiver, webhook: Webhook) -> None:
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), "hooks/hidden", receiver.url):
        assert hidden not in text + repr(webhook)


@pytest.mark.parametrize("wait", ["1e9", "86400", "999999999999", "Fri, 01 Jan 2100 00:00:00 GMT"])
async def test_a_receiver_that_wants_a_long_wait_gets_the_alert_after_the_longest(wait: str) -> None:
    retry = Retry(retries=3, first=0.0, patience=0.01)
    async with receiving(503, 429) as receiver:
        receiver.answers["Retry-After"] = wait
        async with Webhook(receiver.url, secret=SECRET, retry=retry) as webhook:
            webhook.send(change(1))
        assert receiver.values == [1, 1, 1]


@pytest.mark.parametrize("group", ["two\nERROR lines", "a\r\nb", "\x1b[31mred", "a\u2028b", "\u202eback"])
async def test_a_group_stays_on_its_line_of_the_log(group: str, caplog: Any) -> None:
    async with Webhook("http://127.0.0.1:9/", secret=SECRET, retry=Retry(retries=0)) as webhook:
        webhook.send(AlertChange("cost", 0.0, 3.0, is_firing=True, group=group))
    [record] = [each for each in caplog.records if "is not sent" in each.message]
    assert record.message.isprintable()


@pytest.mark.parametrize(
    "url", ["http://[::1", "http://a:99999/", "http://a:b/", "http://a:0/", "ftp://a", "", None, b"http://a", 7]
)
def test_a_text_that_is_not_an_address_is_refused(url: Any) -> None:
    with pytest.raises(ConfigurationError, match="not an address"):
        Webhook(url, secret=SECRET)


@pytest.mark.parametrize("secret", [None, b"", b"whsec_abc", SECRET.encode(), 7, [], [None], [7], ["x"]])
def test_what_is_not_a_secret_is_refused(secret: Any) -> None:
    with pytest.raises(ConfigurationError, match="secret") as caught:
        Webhook("http://example.com", secret=secret)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("options", [{"retry": None}, {"retry": 3}, {"limit": None}, {"limit": "2"}])
def test_other_settings_of_a_wrong_type_are_refused(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        Webhook("http://example.com", secret=SECRET, **options)
