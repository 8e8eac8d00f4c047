"""A secret of the environment is hidden where the text of an error enters a record, and where anything enters a log.

An address shows no parameter that may be a secret.
"""

from __future__ import annotations

import asyncio
import logging
import re
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import rxworker
from rxworker import Worker, before_tool_call, tool
from rxworker.errors import ConfigurationError, ToolError, describe, reason_of
from rxworker.log import SQLiteLog
from rxworker.messages import Text, ToolResult
from rxworker.providers import Anthropic, Gemini, OpenAIChat, OpenAIResponses, Request
from rxworker.redact import LOGGERS
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.transport import Client, Retry

SECRET = "sk-live-0123456789abcdef"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_API_KEY", SECRET)


class _UnexpectedError(Exception):
    pass


def read(folder: Path) -> bytes:
    """All files of a folder."""
    return b"".join(file.read_bytes() for file in folder.iterdir())


def raise_error(kind: type[Exception]) -> Callable[[], str]:
    def pay() -> str:
        """Pay."""
        raise kind(f"the bank refused {SECRET}")

    return pay


async def raise_later() -> str:
    """Pay."""
    raise _UnexpectedError(SECRET)


async def return_error() -> ToolResult:
    """Pay."""
    return ToolResult("", (Text(f"refused: {SECRET}"),), is_error=True)


@before_tool_call(name="failing")
def failing(_: Any) -> None:
    raise _UnexpectedError(f"a hook with {SECRET}")


def answer(request: Request) -> Reply:
    return say("Done.") if request.conversation.messages[-1].tool_results else call("pay")


TOOLS: dict[str, Any] = {
    "an error": raise_error(_UnexpectedError),
    "a ToolError": raise_error(ToolError),
    "a coroutine": raise_later,
    "a result that is an error": return_error,
}


@pytest.mark.parametrize("is_watched", [False, True])
@pytest.mark.parametrize("what", [*TOOLS, "a hook"])
async def test_an_error_leaves_no_secret_in_records_stores_and_logs(
    what: str, is_watched: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")

    def watch(_: object) -> None:
        raise _UnexpectedError(f"a watcher with {SECRET}")

    async with SQLiteLog(tmp_path / "runs.db") as log:
        found = tool(name="pay")(TOOLS.get(what, return_error))
        hooks = [failing] if what == "a hook" else []
        worker = Worker(ScriptedModel(answer), tools=[found], hooks=hooks, log=log)
        run = worker.run("Pay!")
        if is_watched:
            run.records.subscribe(watch)
        with suppress(Exception):
            await run
        records = [each async for each in log.read(run.id)]
        assert records
        assert SECRET not in repr(run.state)
    stored = read(tmp_path)
    assert b"Pay!" in stored
    assert SECRET.encode() not in stored
    format_of = logging.Formatter("%(message)s").format
    assert SECRET not in "".join(map(format_of, caplog.records))
    assert SECRET not in repr([vars(each) for each in caplog.records if not each.exc_info])


def test_every_logger_hides_secrets(caplog: pytest.LogCaptureFixture) -> None:
    """Found in the source, so that a new one is tried as well."""
    found: set[str] = set()
    for path in Path(rxworker.__file__).parent.rglob("*.py"):
        found |= set(re.findall(r'getLogger\("(rxworker[\w.]*)"\)', path.read_text("utf-8")))
    assert found == {f"rxworker.{name}" for name in LOGGERS}
    caplog.set_level("DEBUG")
    for name in found:
        try:
            raise _UnexpectedError(SECRET)
        except _UnexpectedError:
            extra = {"what": SECRET}
            logging.getLogger(name).exception("not %s", SECRET, extra=extra)
    assert len(caplog.records) == len(found)
    assert SECRET not in caplog.text
    assert "_UnexpectedError: ***" in caplog.text
    assert all(vars(each)["what"] == "***" for each in caplog.records)


def test_a_line_without_a_secret_is_logged_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("rxworker.tools")
    logger.error("%s of %d", "one", 2, exc_info=ValueError("no"))
    [record] = caplog.records
    assert (record.msg, record.args) == ("%s of %d", ("one", 2))
    assert record.exc_info is not None


def test_the_text_of_an_error_has_no_secret() -> None:
    assert describe(ValueError(f"no {SECRET}")) == "ValueError: no ***"
    assert reason_of(ToolError(f"no {SECRET}")) == "no ***"


# Addresses

CODE = "zuq4-9d-hidden-0123456789"
PROVIDERS: dict[str, Callable[..., Any]] = {
    "anthropic": Anthropic,
    "gemini": Gemini,
    "openai chat": OpenAIChat,
    "openai responses": OpenAIResponses,
}


@pytest.mark.parametrize("parameter", ["code", "sig", "token", "subscription", "x"])
@pytest.mark.parametrize("name", PROVIDERS)
def test_no_parameter_of_an_address_is_shown(name: str, parameter: str) -> None:
    for member in ("base_url", "address"):
        url = f"https://gateway.example/v1?{parameter}={CODE}&api-version=2024-10-21"
        provider = PROVIDERS[name]("m", api_key="k-0123456789", **{member: url})
        client = Client(provider)
        for shown in (repr(provider), repr(client), repr(Worker(client))):
            assert CODE not in shown
        assert "api-version=2024-10-21" in repr(provider)
    with pytest.raises(ConfigurationError) as caught:
        PROVIDERS[name]("m", api_key="k", base_url=f"gateway?{parameter}={CODE}")
    assert CODE not in str(caught.value)


@asynccontextmanager
async def answering(make: Callable[[bytes], bytes]) -> AsyncGenerator[int, None]:
    """A server that answers with what is made of the request."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(make(await reader.readuntil(b"\r\n\r\n")))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


ANSWERS: dict[str, Callable[[bytes], bytes]] = {
    "the request": lambda sent: sent,
    "a head with the request": lambda sent: b"HTTP/1.1 200 OK\r\n" + sent,
    "its headers": lambda sent: sent.partition(b"\r\n")[2],
    "a banner": lambda _: b"SSH-2.0-server\r\n",
    "nothing": lambda _: b"",
    "an error with the request": lambda sent: b"HTTP/1.1 404 No\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent,
    "a redirect": lambda sent: b"HTTP/1.1 302 Found\r\nLocation: http://x.example/" + sent.split()[1] + b"\r\n\r\n",
}


@pytest.mark.parametrize("what", ANSWERS)
async def test_an_answer_that_quotes_the_request_brings_no_secret_into_an_error(
    what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    key = "another-hidden-key-0123456789"
    async with answering(ANSWERS[what]) as port:
        url = f"http://127.0.0.1:{port}/v1?code={CODE}"
        client = Client(OpenAIChat("m", api_key=key, base_url=url), retry=Retry(retries=0))
        with pytest.raises(Exception, match=r"127\.0\.0\.1|HTTP") as caught:
            await Worker(client, response_retry=Retry(retries=0)).run("Hi")
    text = "".join(traceback.format_exception(caught.value)) + caplog.text
    error: BaseException | None = caught.value
    while error is not None:
        text += f"{error} {error!r} {vars(error).get('message')}"
        error = error.__cause__ or error.__context__
    assert CODE not in text
    assert key not in text
