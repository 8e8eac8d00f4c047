"""What a service quotes of a request in an error does not show the secrets of that request, from any place in it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import reactivex
from reactivex import Observable

from rxworker import Worker
from rxworker.errors import HttpStatusError, ProviderError
from rxworker.log import MemoryLog, export_run
from rxworker.providers import PROVIDERS, HttpRequest, Options
from rxworker.testing import Reply, fail, say
from rxworker.testing.wire import wire_for
from rxworker.transport import Client, Retry

SECRET = "tok/0123+abcdef=="
GIVEN: dict[str, tuple[dict[str, str], Options]] = {
    "api_key": ({"api_key": SECRET}, Options()),
    "headers": ({}, Options(headers={"X-Gateway-Token": SECRET})),
    "authorization": ({}, Options(headers={"authorization": f"Bearer {SECRET}"})),
    "cookie": ({}, Options(headers={"cookie": f"theme=dark; session={SECRET}"})),
    "extra": ({}, Options(extra={"metadata": {"servers": [{"auth_token": SECRET}]}})),
    "pair": ({}, Options(extra={"upstream": [["x-api-key", SECRET]]})),
}


class Quotes:
    """A service that quotes the secret in its error: at once, or in its stream."""

    def __init__(self, reply: Reply | None) -> None:
        self.reply = reply

    def send(self, request: HttpRequest) -> Observable[bytes]:
        wire = wire_for(request.url)
        assert wire is not None
        said = f"the value {SECRET} is not a credential"
        if self.reply is None:
            body = json.dumps(wire.error_body(said)).encode()
            return reactivex.throw(
                HttpStatusError("HTTP 401", status=401, headers={"request-id": SECRET}, body=body, url="")
            )
        reply = self.reply + fail(said, "authentication", code=SECRET)
        return reactivex.from_iterable(wire.frames(reply, 1, json.loads(request.body)))


def at_once() -> Reply | None:
    return None


def in_the_stream() -> Reply | None:
    return Reply()


def after_text() -> Reply | None:
    return say("Half a sen")


@pytest.mark.parametrize("where", [at_once, in_the_stream, after_text])
@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("name", PROVIDERS)
async def test_a_secret_that_a_service_quotes_reaches_no_record_and_no_error(
    name: str, given: str, where: Callable[[], Reply | None]
) -> None:
    arguments, options = GIVEN[given]
    provider = PROVIDERS[name]("m", api_key=arguments.get("api_key", "unused-key"))
    client = Client(provider, transport=Quotes(where()), retry=Retry(retries=0))
    async with MemoryLog() as log:
        worker = Worker(client, options=options, log=log, response_retry=Retry(retries=0))
        run = worker.run("Hi")
        with pytest.raises(ProviderError) as caught:
            await run
        error = caught.value
        assert "is not a credential" in str(error)
        shown = [repr(error), str(error.code), str(error.request_id), repr(error.__dict__)]
        shown += [line.decode() async for line in export_run(log, run.id)]
        shown += [repr(await log.info(run.id)), repr(run.state)]
        assert not [text for text in shown if SECRET in text]
