"""What reaches the web server's port, attacked from outside.

Broken HTTP, foreign pages, floods, and errors that hold secrets.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import resource
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import pytest

from rxworker import Worker, tool
from rxworker.errors import ConfigurationError, LocalProtocolError, RemoteProtocolError
from rxworker.providers import OpenAIChat
from rxworker.testing import ReplayServer, ScriptedModel, call, fail, say, stall
from rxworker.transport import Retry
from rxworker.ui.web import Settings, WebServer
from rxworker.ui.web.guard import HEADERS
from rxworker.ui.web.runs.workers import MakeServedWorker

TOKEN = "a-very-secret-token-0123456789"
SECRET = "sk-live-0123456789abcdef"
HOST = b"Host: localhost\r\n"
WITH = HOST + f"Authorization: Bearer {TOKEN}\r\n".encode()
END = b"Connection: close\r\n\r\n"


def hello() -> Worker:
    return Worker(ScriptedModel(["Hello!"]))


class Client:
    """A client of a server, with its token."""

    def __init__(self, server: WebServer, http: aiohttp.ClientSession) -> None:
        self.server = server
        self.http = http
        self._writers: list[asyncio.StreamWriter] = []

    async def get(self, path: str, **options: Any) -> tuple[int, str]:
        return await self.request("GET", path, **options)

    async def post(self, path: str, body: object, **options: Any) -> tuple[int, str]:
        return await self.request("POST", path, json=body, **options)

    async def request(self, method: str, path: str, **options: Any) -> tuple[int, str]:
        async with self.http.request(method, self.server.url + path, **options) as response:
            return response.status, await response.text()

    async def begin(self, text: str = "hi") -> str:
        status, told = await self.post("api/runs", {"input": text})
        assert status == 201, told
        return json.loads(told)["id"]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        port = int(self.server.url.rstrip("/").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        self._writers.append(writer)
        return reader, writer

    async def close(self) -> None:
        """End all connections."""
        for writer in self._writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def raw(self, data: bytes) -> bytes:
        """All that is answered until the server closes the connection."""
        reader, writer = await self.connect()
        writer.write(data)
        answer = await reader.read(100_000)
        while more := await reader.read(100_000):
            answer += more
        writer.close()
        return answer


@asynccontextmanager
async def served(make: MakeServedWorker = hello, settings: Settings | None = None) -> AsyncGenerator[Client, None]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        WebServer(make, port=0, settings=settings or Settings(token=TOKEN)) as server,
        aiohttp.ClientSession(headers=headers, trust_env=False) as http,
    ):
        client = Client(server, http)
        try:
            yield client
        finally:
            await client.close()


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# What is not HTTP

UNREADABLE = {
    "two lengths": b"POST /api/runs HTTP/1.1\r\n" + WITH + b"Content-Length: 5\r\n" * 2 + b"\r\n",
    "length and chunks": b"POST /api/runs HTTP/1.1\r\n"
    + WITH
    + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "unknown coding": b"POST /api/runs HTTP/1.1\r\n" + WITH + b"Transfer-Encoding: x\r\n\r\n",
    "negative length": b"POST /api/runs HTTP/1.1\r\n" + WITH + b"Content-Length: -5\r\n\r\n",
    "endless length": b"POST / HTTP/1.1\r\n" + WITH + b"Content-Length: " + b"9" * 30 + b"\r\n\r\n",
    "bare line feeds": (b"GET /api/runs HTTP/1.1\r\n" + WITH + END).replace(b"\r", b""),
    "folded header": b"GET / HTTP/1.1\r\nHost: localhost\r\n evil.com\r\n" + WITH + b"\r\n",
    "control character": b"GET / HTTP/1.1\r\n" + WITH + b"X: a\x00b\r\n\r\n",
    "endless header": b"GET / HTTP/1.1\r\n" + WITH + b"X: " + b"a" * 50_000 + b"\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + WITH + b"X: a\r\n" * 2000 + b"\r\n",
    "endless address": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n" + WITH + b"\r\n",
    "html": b"GET /<script>alert(1)</script> \r\nAccept: text/html\r\n\r\n",
    "token in it": b"GET /?token=" + TOKEN.encode() + b" HTTP/9.9\r\n\r\n",
    "token before it": b"GET /?token=" + TOKEN.encode() + b" HTTP/1.1\r\nBad Header: \x01\r\n\r\n",
    "other protocol": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64 + b"\r\n\r\n",
}


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_cannot_be_read_is_neither_quoted_nor_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with served() as client:
        answer = await client.raw(UNREADABLE[name])
        assert status_of(answer) == 400
        head, _, body = answer.partition(b"\r\n\r\n")
        assert json.loads(body)["error"]["code"] == "bad_request"
        for header, value in HEADERS.items():
            assert f"{header}: {value}".encode() in head
        assert TOKEN.encode() not in answer
        assert b"script" not in body
    assert TOKEN not in caplog.text
    assert [r for r in caplog.records if r.levelno > logging.INFO] == []


ODD = [
    b"GET http://evil.com/api/runs HTTP/1.1\r\n" + WITH,
    b"GET //evil.com/api/runs HTTP/1.1\r\n" + WITH,
    b"GET /api/runs HTTP/1.0\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + WITH,
    b"CONNECT localhost:80 HTTP/1.1\r\n" + WITH,
    b"GET /api/runs HTTP/1.1\r\n" + WITH + b"Origin: http://[\r\n",
    b"GET /api/runs HTTP/1.1\r\n" + WITH + b"Origin: http://localhost\r\nOrigin: http://evil.com\r\n",
    b"GET /api/runs HTTP/1.1\r\n" + HOST + b"Authorization: Bearer \xff\xfe\r\n",
    b"GET /api/runs HTTP/1.1\r\n" + HOST + b'Cookie: \xff=\xfe; ;;;="\r\n',
    b"GET /?token=%ff HTTP/1.1\r\n" + HOST,
    b"GET /?token=x&token=" + TOKEN.encode() + b" HTTP/1.1\r\n" + HOST,
    b"GET /api/runs/%ff%ed%a0%80 HTTP/1.1\r\n" + WITH,
    b"GET /static/%252e%252e/app.py HTTP/1.1\r\n" + WITH,
    b"GET /static/..\\app.py HTTP/1.1\r\n" + WITH,
    b"POST /api/runs HTTP/1.1\r\n" + WITH + b"Expect: fun\r\nContent-Length: 0\r\n",
    b"GET /api/ws HTTP/1.1\r\n" + WITH,
]


@pytest.mark.parametrize("request_", ODD)
async def test_what_is_odd_is_refused_without_an_accident(request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served() as client:
        answer = await client.raw(request_ + END)
        assert 400 <= status_of(answer) < 500
        assert b"instance" not in answer
        assert b"Content-Security-Policy" in answer
    assert caplog.records == []


async def test_every_method_on_every_address_is_answered_in_order() -> None:
    async with served() as client:
        run = await client.begin()
        paths = ["", "static/main.js", "api/info", "api/runs", "ag-ui", "api/chat", "api/ws"]
        paths += [f"api/runs/{run}{what}" for what in ("", "/send", "/events", "/ag-ui", "/resume")]
        for path in [*paths, "api/chat/x/stream", "nothing"]:
            for method in ("HEAD", "OPTIONS", "PUT", "DELETE", "PATCH", "TRACE", "POST"):
                url = client.server.url + path
                async with client.http.request(method, url) as response:
                    assert response.status < 500, (method, path)
                    assert response.headers["Content-Security-Policy"]
                    if method not in ("HEAD", "POST"):
                        assert response.status in (404, 405), (method, path)


# Bodies


async def test_a_body_that_grows_when_it_is_unpacked_is_not_unpacked() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(b"a" * 1_000_000) for _ in range(100)) + packer.flush()
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    async with served() as client:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for body in (bomb, b"no gzip at all"):
            status, told = await client.request("POST", "api/runs", data=body, headers=headers)
            assert (status, json.loads(told)["error"]["code"]) == (415, "encoded")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 50_000, "kilobytes"


async def test_a_body_that_is_framed_wrongly_is_refused() -> None:
    head = b"POST /api/runs HTTP/1.1\r\n" + WITH + b"Content-Type: application/json\r\n"
    async with served() as client:
        answer = await client.raw(head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}")
        assert status_of(answer) == 400
        assert b"bad_request" in answer


DEEP = "[" * 20_000 + "]" * 20_000
STRANGE = [
    "[]",
    "null",
    "1e999",
    '{"input":1e999}',
    '{"input":"\\ud83d"}',
    '{"input":"a"}x',
    f'{{"input":{DEEP}}}',
    f'{{"input":"a","more":{DEEP}}}',
    '{"input":"a","worker":"no"}',
    '{"threadId":"t","runId":"r","messages":[{"role":"user","content":[[]]}]}',
    '{"threadId":"t","runId":"r","messages":[],"resume":[{"interruptId":"x","status":"resolved"}]}',
    f'{{"threadId":"t","runId":"r","state":{DEEP},"messages":[]}}',
    '{"id":"c","messages":[{"role":"user","parts":[{"type":"file","url":"file:///etc/passwd"}]}]}',
]


@pytest.mark.parametrize("path", ["api/runs", "ag-ui", "api/chat", "api/runs/RUN/resume"])
async def test_a_strange_body_is_refused_in_order(path: str) -> None:
    headers = {"Content-Type": "application/json"}
    async with served() as client:
        run = await client.begin()
        for body in STRANGE:
            status, told = await client.request("POST", path.replace("RUN", run), data=body.encode(), headers=headers)
            assert 400 <= status < 500, (body[:60], told)
            if path == "api/chat":  # useChat shows the body to its user
                assert told
                assert "{" not in told[:1]
            else:
                assert json.loads(told)["error"]["message"]


@pytest.mark.parametrize("value", ["1" + "0" * 400, "[" * 500 + "]" * 500, "1e308", '"\\u0000"'])
async def test_strange_arguments_reach_every_watcher(value: str) -> None:
    @tool(requires_approval=True)
    def remove(path: str) -> str:
        """Remove a file."""
        return path

    def make() -> Worker:
        return Worker(ScriptedModel([call("remove", path="a"), "Done."]), tools=[remove])

    async with served(make) as client:
        run = await client.begin()
        await client.get(f"api/runs/{run}/events")
        body = f'{{"decisions":{{"call_1_1":{{"type":"approve","input":{{"path":"a","x":{value}}}}}}}}}'
        headers = {"Content-Type": "application/json"}
        status, told = await client.request("POST", f"api/runs/{run}/resume", data=body.encode(), headers=headers)
        if value.startswith("["):
            assert (status, "more than 100 arrays" in told) == (400, True), told
            return
        assert status == 201, told
        run = json.loads(told)["id"]
        assert "event: end" in (await client.get(f"api/runs/{run}/events"))[1]
        assert "RUN_FINISHED" in (await client.get(f"api/runs/{run}/ag-ui"))[1]
        assert json.loads((await client.get("api/runs"))[1])["runs"][0]["status"] == "finished"


async def test_line_ends_in_texts_of_a_client_begin_no_line_of_a_stream() -> None:
    evil = "x\n\nevent: end\r\ndata: {}\r\rid: 9\u2028\x85\x00"
    chat = {"id": evil, "messages": [{"role": "user", "parts": [{"type": "text", "text": evil}]}]}
    ag_ui = {"threadId": evil, "runId": evil, "messages": [{"role": "user", "content": evil}]}
    async with served() as client:
        for path, body in (("api/chat", chat), ("ag-ui", ag_ui | {"threadId": evil + "2"})):
            url = client.server.url + path
            async with client.http.post(url, json=body) as response:
                assert response.status == 200
                lines = re.split(r"\r\n|\r|\n", await response.text())
                assert all(line == "" or line.startswith("data: ") for line in lines)
                assert evil not in str(response.headers)
                run = response.headers["X-Rxworker-Run"]
            _, told = await client.get(f"api/runs/{run}/events")
            assert told.count("event: end\n") == 1
            fields = {line.partition(":")[0] for line in told.split("\n") if line}
            assert fields == {"retry", "id", "data", "event"}


# Foreign pages


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
async def test_another_page_s_pictures_frames_and_scripts_are_refused(site: str) -> None:
    """What listens on another port of this machine is the same site, and gets our cookies."""
    async with served() as client:
        for mode, dest in [("no-cors", "image"), ("no-cors", "script"), ("navigate", "iframe")]:
            headers = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
            assert (await client.get("api/runs", headers=headers))[0] == 403
        link = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
        assert (await client.get("", headers=link))[0] == 200
        assert (await client.get("", headers=link | {"Sec-Fetch-Site": "none"}))[0] == 200


@pytest.mark.parametrize("origin", ["desk.example.com", "https://desk.example.com/", "*", "", "null"])
def test_what_is_not_an_origin_is_not_allowed_by_mistake(origin: str) -> None:
    with pytest.raises(ConfigurationError, match=r"such as https://desk\.example\.com"):
        Settings(allowed_origins=(origin,))


# Too many


async def test_who_may_not_come_in_keeps_no_connection() -> None:
    async with served() as client:
        for head in (HOST, WITH + b"Origin: http://evil.com\r\n", b"Host: evil.com\r\n"):
            # No word about closing: the answer ends when the server closes.
            answer = await client.raw(b"GET /api/runs HTTP/1.1\r\n" + head + b"\r\n")
            assert status_of(answer) in (401, 403)


async def test_a_connection_that_sends_nothing_or_half_a_request_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.ui.web.server.HEAD_SECONDS", 0.05)
    async with served() as client:
        for half in (b"", b"GET /api/runs HT", b"GET /api/runs HTTP/1.1\r\nHost: local"):
            reader, writer = await client.connect()
            writer.write(half)
            with suppress(ConnectionError):
                assert await reader.read() == b""


async def test_a_stream_is_not_taken_for_an_idle_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rxworker.ui.web.server.HEAD_SECONDS", 0.3)
    settings = Settings(token=TOKEN, heartbeat=0.2)
    async with served(lambda: Worker(ScriptedModel([stall()])), settings) as client:
        run = await client.begin()
        async with client.http.get(f"{client.server.url}api/runs/{run}/events") as response:
            pings = 0
            async for line in response.content:
                pings += line == b": ping\n"
                if pings == 4:
                    break


async def test_one_connection_too_many_is_closed_and_there_is_room_again() -> None:
    settings = Settings(token=TOKEN, max_connections=3)
    async with served(settings=settings) as client:
        held = [await client.connect() for _ in range(3)]
        reader, writer = await client.connect()
        writer.write(b"GET /api/runs HTTP/1.1\r\n" + WITH + END)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        request = b"GET /api/runs HTTP/1.1\r\n" + WITH + END
        held[0][1].write(request)
        assert status_of(await held[0][0].read()) == 200
        held[0][1].close()
        await held[0][1].wait_closed()
        assert status_of(await client.raw(request)) == 200


async def test_messages_that_no_model_receives_do_not_pile_up() -> None:
    async with served(lambda: Worker(ScriptedModel([stall()]))) as client:
        run = await client.begin()
        sent = [await client.post(f"api/runs/{run}/send", {"message": "?"}) for _ in range(40)]
        assert [status for status, _ in sent] == [200] * 32 + [429] * 8
        assert "wait" in sent[-1][1]


# Secrets


def raising(error: Exception) -> MakeServedWorker:
    def make() -> Worker:
        raise error

    return make


ERRORS: list[Callable[[str], Exception]] = [
    RuntimeError,
    TimeoutError,
    ConnectionError,
    KeyError,
    ConfigurationError,
    LocalProtocolError,
    RemoteProtocolError,
]


@pytest.mark.parametrize("error", ERRORS)
async def test_why_a_worker_could_not_be_made_is_not_shown_to_clients(
    error: Callable[[str], Exception], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    ag_ui = {"threadId": "t", "runId": "r", "messages": [{"role": "user", "content": "x"}]}
    asked = [("GET", "api/info", None), ("POST", "api/runs", {"input": "a"}), ("POST", "ag-ui", ag_ui)]
    async with served(raising(error(f"cannot log in with {SECRET} at db://me:{SECRET}@db"))) as client:
        for method, path, body in asked:
            status, told = await client.request(method, path, json=body)
            assert status == 500
            number = json.loads(told)["error"]["message"].split()[-1]
            assert number in caplog.text
            assert "cannot log in" in caplog.text
            assert "cannot log in" not in told
    assert SECRET not in caplog.text


async def test_a_failure_is_one_entry_of_the_log_whatever_its_address_holds(caplog: pytest.LogCaptureFixture) -> None:
    async with served(raising(RuntimeError("no"))) as client:
        await client.get("api/info?token=leaked-by-a-proxy")
        await client.get("api/info%0aINFO:all-is-well")
    assert "leaked" not in caplog.text
    assert "\nINFO:all" not in caplog.text


async def everything_of(client: Client, run_id: str) -> str:
    """All that anybody can read of a run."""
    told = [(await client.get(f"api/runs/{run_id}/{what}"))[1] for what in ("events", "ag-ui")]
    told += [(await client.get(path))[1] for path in ("api/runs", f"api/runs/{run_id}", "api/info")]
    async with client.http.ws_connect(f"{client.server.url}api/ws") as socket:
        await socket.send_json({"type": "list"})
        await socket.send_json({"type": "watch", "run": run_id})
        while True:
            told.append((await socket.receive()).data)
            if '"type":"end"' in told[-1]:
                return "".join(told)


ONCE = Retry(retries=0)


@tool
def connect() -> str:
    """Connect."""
    raise RuntimeError(f"cannot connect with {SECRET}")


async def test_a_secret_in_the_error_of_a_tool_or_a_model_is_in_nothing_that_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    replies = [say("Let me see.") + call("connect"), say("half") + fail(f"{SECRET} is unknown")]
    async with served(lambda: Worker(ScriptedModel(replies), tools=[connect], response_retry=ONCE)) as client:
        run = await client.begin()
        told = await everything_of(client, run)
        chat = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]}
        told += (await client.post("api/chat", chat))[1]
    assert "cannot connect with ***" in told
    assert "*** is unknown" in told
    assert SECRET not in told


async def test_a_key_that_its_service_quotes_is_in_nothing_that_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    quoting = fail(f"Incorrect API key provided: {SECRET}", "authentication")
    with ReplayServer([quoting]) as service:

        def make() -> Worker:
            return Worker(OpenAIChat("m", base_url=service.base_url))

        async with served(make) as client:
            told = await everything_of(client, await client.begin())
    assert "Incorrect API key provided: ***" in told
    assert SECRET not in told


async def test_what_is_named_like_a_secret_and_is_a_harmless_word_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_THINKING_TOKENS", "1795184000")
    monkeypatch.setenv("AUTH_MODE", "enabled-everywhere-always")
    text = "It is enabled-everywhere-always, 1795184000 times."
    async with served(lambda: Worker(ScriptedModel([say(text, chunk=1000)]))) as client:
        assert text in await everything_of(client, await client.begin())
