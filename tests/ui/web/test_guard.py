"""What keeps others out, attacked."""

from __future__ import annotations

import asyncio
import hmac
import logging
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from itertools import product
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from rxworker import Worker
from rxworker.testing import ScriptedModel, say, stall
from rxworker.transport.listening import stop_listening
from rxworker.ui.web import Settings, make_app
from rxworker.ui.web.guard import HEADERS
from rxworker.ui.web.http.settings import Hosts, is_own_origin

from .conftest import OpenDesk

TOKEN = "a-very-secret-token-0123456789"
LOCKED = Settings(token=TOKEN)
PATHS = ["", "api/info", "api/runs", "api/runs/x", "api/runs/x/events", "api/ws", "nothing"]

EVIL_HOSTS = [
    "evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "evil.com:8080", "127.0.0.1@evil.com", "127.0.0.1 evil.com",
    "127.0.0.2", "0.0.0.0", "192.168.0.1", "2130706433", "[::2]", "localhost:80:80", "",
]  # fmt: skip


@pytest.mark.product(3)
@pytest.mark.parametrize("host", EVIL_HOSTS)
async def test_a_foreign_name_for_this_machine_is_refused(open_desk: OpenDesk, host: str) -> None:
    desk = await open_desk()
    for path in [*PATHS, "static/main.js"]:
        status, told = await desk.get(path, headers={"Host": host})
        # Some are not names at all, which aiohttp itself refuses.
        assert status in (400, 403), path
        if status == 403:
            assert told["error"]["code"] == "foreign_host"


async def test_a_page_of_an_allowed_origin_may_read_the_answers(open_desk: OpenDesk) -> None:
    """The preflight request of a browser has no token; https://fetch.spec.whatwg.org/#http-cors-protocol."""
    origin = "https://chat.example.com"
    desk = await open_desk(settings=Settings(token=TOKEN, allowed_origins=(origin,)))
    url = desk.url("v1/models")
    for given, status in ((origin, 204), ("https://evil.com", 403)):
        headers = {"Origin": given, "Access-Control-Request-Method": "GET"}
        async with desk.http.options(url, headers=headers) as answer:
            assert answer.status == status
            allowed = answer.headers.get("Access-Control-Allow-Origin")
            assert allowed == (origin if status == 204 else None)
            headers_allowed = answer.headers.get("Access-Control-Allow-Headers", "")
            assert ("Authorization" in headers_allowed) is (status == 204)
    for token, status in ((TOKEN, 200), ("wrong", 401)):
        headers = {"Origin": origin, "Authorization": f"Bearer {token}"}
        async with desk.http.get(url, headers=headers) as answer:
            assert answer.status == status
            assert answer.headers["Access-Control-Allow-Origin"] == origin
    async with desk.http.get(url, headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:99", "127.0.0.1", "[::1]:99"])
async def test_this_machines_own_names_are_fine(open_desk: OpenDesk, host: str) -> None:
    desk = await open_desk()
    assert (await desk.get("api/runs", headers={"Host": host}))[0] == 200


async def test_two_names_at_once_are_refused(open_desk: OpenDesk) -> None:
    desk = await open_desk()
    answer = await raw(desk.server.url, b"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nHost: evil.com\r\n")
    assert answer.split(b" ")[1] in (b"400", b"403")
    answer = await raw(desk.server.url, b"GET /api/runs HTTP/1.0\r\n")
    assert answer.split(b" ")[1] == b"403"


def test_allowed_names_and_networks() -> None:
    hosts = Hosts(["Desk.example.com", "10.0.0.0/8", "fd00::/8"])
    assert all(map(hosts.allow, ["desk.example.com:443", "10.1.2.3", "[fd00::1]:8", "localhost"]))
    assert not any(map(hosts.allow, ["example.com", "11.0.0.1", "[fe80::1]", "x.desk.example.com"]))
    assert Hosts(["*"]).allow("any.example.com")
    assert not Hosts(["*"]).allow("a b")


EVIL_ORIGINS = [
    "null", "http://evil.com", "https://127.0.0.1.evil.com", "http://127.0.0.1", "http://127.0.0.1:1",
    "http://localhost", "file://", "chrome-extension://abc", "",
]  # fmt: skip


@pytest.mark.product(3)
@pytest.mark.parametrize("origin", EVIL_ORIGINS)
async def test_a_foreign_page_can_neither_begin_a_run_nor_listen(open_desk: OpenDesk, origin: str) -> None:
    desk = await open_desk("one")
    headers = {"Origin": origin}
    status, told = await desk.post("api/runs", {"input": "a"}, headers=headers)
    assert (status, told["error"]["code"]) == (403, "foreign_origin")
    assert (await desk.get("api/runs", headers=headers))[0] == 403
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await desk.http.ws_connect(desk.url("api/ws"), headers=headers)
    assert refused.value.status == 403
    assert (await desk.get("api/runs"))[1]["runs"] == []


async def test_a_page_of_the_servers_own_may_do_both(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    headers = {"Origin": desk.server.url.rstrip("/")}
    assert (await desk.post("api/runs", {"input": "a"}, headers=headers))[0] == 201
    async with desk.http.ws_connect(desk.url("api/ws"), headers=headers) as socket:
        assert (await socket.receive_json())["type"] == "hello"


SHOWN = [
    "static/embed.js", "api/info", "api/link", "api/runs", "api/runs/run-1/events", "api/runs/run-1",
    "api/runs/run-1/send", "api/runs/run-1/resume", "api/runs/run-1/pause",
    "api/runs/run-1/cancel", "api/runs/run-1/fork", "api/boards", "api/boards/usage/events", "api/streams/numbers",
]  # fmt: skip
"""What a page of an allowed origin uses to show and steer runs."""

OTHERS = [
    "", "fleet", "api/fleet", "api/runs/run-1/worker", "api/runs/run-1/requeue", "api/runs/run-1/requests/1",
    "api/runs/run-1/annotate", "api/conversations/x/delete",
    "api/conversations/api%2Fruns/delete", "api/conversations/x%2Fv1%2Fy/delete", "api/fleet?x=/static/a/v1/",
    "api/chat", "api/time-marks", "metrics",
]  # fmt: skip


@pytest.mark.product(3)
@pytest.mark.parametrize(("path", "may"), [(p, True) for p in SHOWN] + [(p, False) for p in OTHERS])
async def test_a_page_that_was_allowed_may_use_what_shows_and_steers_runs_alone(
    open_desk: OpenDesk, path: str, may: bool
) -> None:
    page = "https://desk.example.com"
    desk = await open_desk("one", settings=Settings(token=TOKEN, allowed_origins=(page,)))
    url = URL(desk.url(path), encoded=True)
    async with desk.http.get(url, headers={"Origin": page}) as response:
        assert (response.headers.get("Access-Control-Allow-Origin") == page) is may
    asked = {"Origin": page, "Access-Control-Request-Method": "POST"}
    async with desk.http.options(url, headers=asked) as response:
        assert (response.status == 204) is may
        # With cookies, * is not a wildcard.
        allowed = response.headers.get("Access-Control-Allow-Headers", "").split(", ")
        assert ({"Authorization", "Content-Type"} <= set(allowed)) is may


def test_an_origin_that_begins_like_an_allowed_one_is_another() -> None:
    assert not is_own_origin("https://desk.example.com", "desk.example.com.evil.com")


def token_protocol(token: str) -> str:
    """The name of a protocol that brings a token, as a browser sends it."""
    return f"rxworker.token.{urlsafe_b64encode(token.encode()).decode().rstrip('=')}"


async def test_a_socket_of_a_browser_brings_the_token_as_a_protocol(open_desk: OpenDesk) -> None:
    token = "a secret, with ümlauts and ~?>"
    desk = await open_desk(settings=Settings(token=token))
    protocols = ["rxworker", token_protocol(token)]
    async with desk.http.ws_connect(desk.url("api/ws"), protocols=protocols) as socket:
        assert socket.protocol == "rxworker"
        assert (await socket.receive_json())["type"] == "hello"
    for wrong in (token_protocol("another"), "rxworker.token.", "rxworker.token.!", "rxworker.token._w"):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await desk.http.ws_connect(desk.url("api/ws"), protocols=["rxworker", wrong])
        assert refused.value.status == 401


async def test_a_socket_that_names_the_token_alone_is_refused_and_the_token_is_not_logged(
    open_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")  # below it, uvicorn logs all headers
    desk = await open_desk(settings=Settings(token=TOKEN))
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await desk.http.ws_connect(desk.url("api/ws"), protocols=[token_protocol(TOKEN)])
    assert refused.value.status == 400
    assert token_protocol(TOKEN) not in caplog.text


async def test_a_page_that_was_allowed_may_load_what_shows_a_run(open_desk: OpenDesk) -> None:
    page = "https://desk.example.com"
    desk = await open_desk(settings=Settings(token=TOKEN, allowed_origins=(page,)))
    for path, status in (("static/embed.js", 200), ("api/runs/nothing", 401)):
        async with desk.http.get(desk.url(path), headers={"Origin": page}) as response:
            assert response.status == status
            assert response.headers["Access-Control-Allow-Origin"] == page
            assert response.headers["Vary"] == "Origin"
            # The clock of the server; with cookies, * is not a wildcard.
            assert "Date" in response.headers["Access-Control-Expose-Headers"].split(", ")
        async with desk.http.get(desk.url(path), headers={"Origin": "null"}) as response:
            assert response.status == 403
            assert not [n for n in response.headers if n.lower().startswith("access-control")]


async def test_a_form_of_a_foreign_page_begins_nothing(open_desk: OpenDesk) -> None:
    desk = await open_desk("one")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"Content-Type": kind}
        status, _ = await desk.post("api/runs", data=b'{"input":"a"}', headers=headers)
        assert status == 415
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert (await desk.post("api/runs", {"input": "a"}, headers=headers))[0] == 403
    assert (await desk.get("api/runs"))[1]["runs"] == []


@pytest.mark.parametrize("path", ["", "api/runs", "api/ws", "nothing", "static/main.js"])
async def test_no_response_allows_other_origins_to_read(open_desk: OpenDesk, path: str) -> None:
    desk = await open_desk()
    asked = {"Origin": "http://evil.com", "Access-Control-Request-Method": "POST"}
    async with desk.http.options(desk.url(path), headers=asked) as response:
        assert response.status in (403, 405)
        assert not [n for n in response.headers if n.lower().startswith("access-control")]


# The token


async def test_without_the_token_there_is_nothing(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=LOCKED)
    wrong = ("", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}")  # fmt: skip
    for path, given in product(PATHS, (None, *wrong)):
        headers = {} if given is None else {"Authorization": given}
        async with desk.http.get(desk.url(path), headers=headers) as response:
            assert response.status == 401, (path, given)
            assert response.headers["WWW-Authenticate"] == "Bearer"
            assert TOKEN not in await response.text()


async def test_without_the_token_no_run_begins(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", settings=LOCKED)
    assert (await desk.post("api/runs", {"input": "a"}))[0] == 401
    assert (await desk.post(f"api/runs?token={TOKEN}", {"input": "a"}))[0] == 401
    assert desk.workers == []


async def test_static_files_need_no_token(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=LOCKED)
    assert (await desk.get("static/main.js"))[0] == 200


async def test_with_the_token_everything_is_there(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", settings=LOCKED, token=TOKEN)
    for path in ("", "api/info", "api/runs"):
        assert (await desk.get(path))[0] == 200
    await desk.begin()
    async with desk.socket() as socket:
        assert (await socket.receive_json())["type"] == "hello"


async def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", settings=LOCKED)
    address = desk.url(f"?token={TOKEN}")
    async with desk.http.get(address, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "./")
        [cookie] = response.headers.getall("Set-Cookie")
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert "Path=/" in cookie
        assert TOKEN not in cookie
        assert TOKEN not in await response.text()
    # A client keeps no cookies for an address without a name unless told so.
    name, _, value = cookie.partition(";")[0].partition("=")
    headers = {"Cookie": f"{name}={value}"}
    assert (await desk.get("", headers=headers))[0] == 200
    assert (await desk.post("api/runs", {"input": "a"}, headers=headers))[0] == 201
    async with desk.http.ws_connect(desk.url("api/ws"), headers=headers) as socket:
        assert (await socket.receive_json())["type"] == "hello"
    for wrong in (f"{name}=", f"{name}={value}0", f"{name}={TOKEN}", f"other={value}"):
        assert (await desk.get("api/runs", headers={"Cookie": wrong}))[0] == 401


async def test_the_token_in_the_address_of_a_dashboard_is_that_of_the_server(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", settings=LOCKED)
    async with desk.http.get(desk.url(f"boards/usage?token={TOKEN}"), allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "./usage")
        assert "Path=/;" in response.headers["Set-Cookie"] + ";"
    status, text = await desk.get("boards/usage")
    assert (status, 'href="../static/styles/unlock.css"' in text) == (401, True)


async def test_a_wrong_token_in_the_address_gets_no_cookie(open_desk: OpenDesk) -> None:
    desk = await open_desk(settings=LOCKED)
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x", "%00", "%ff"):
        async with desk.http.get(desk.url(f"?token={wrong}"), allow_redirects=False) as response:
            assert response.status == 401
            assert "Set-Cookie" not in response.headers
            page = await response.text()
        assert "<h1>Wrong token</h1>" in page
    assert (await desk.get("static/styles/unlock.css"))[0] == 200


async def test_a_cookie_of_another_server_opens_nothing(open_desk: OpenDesk) -> None:
    one = await open_desk(settings=LOCKED)
    two = await open_desk(settings=Settings(token="another-secret-token"))
    async with one.http.get(one.url(f"?token={TOKEN}"), allow_redirects=False) as response:
        name, _, value = response.headers["Set-Cookie"].partition(";")[0].partition("=")
    assert (await one.get("api/runs", headers={"Cookie": f"{name}={value}"}))[0] == 200
    assert (await two.get("api/runs", headers={"Cookie": f"{name}={value}"}))[0] == 401


async def test_tokens_are_compared_in_constant_time(open_desk: OpenDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[Any, Any]] = []
    honest = hmac.compare_digest

    def compare(a: Any, b: Any) -> bool:
        compared.append((a, b))
        return honest(a, b)

    monkeypatch.setattr("rxworker.ui.web.guard.hmac.compare_digest", compare)
    desk = await open_desk(settings=LOCKED)
    await desk.get("api/runs", headers={"Authorization": "Bearer wrong"})
    assert (b"wrong", TOKEN.encode()) in compared
    compared.clear()
    await desk.get("?token=wrong")
    assert (b"wrong", TOKEN.encode()) in compared


# What every answer carries


def named(headers: Mapping[str, str]) -> dict[str, str | None]:
    """The headers that every answer carries. An ASGI server names itself."""
    found = {name: headers.get(name) for name in HEADERS}
    return found | {"Server": "rxworker"} if found["Server"] in ("uvicorn", None) else found


async def test_every_answer_carries_the_headers(open_desk: OpenDesk) -> None:
    desk = await open_desk(say("...") + stall())
    run = (await desk.begin())["id"]
    for path in [*PATHS, "static/main.js", "static/no", f"api/runs/{run}/events", "?token=x"]:
        async with desk.http.get(desk.url(path), allow_redirects=False) as response:
            assert named(response.headers) == HEADERS, path
    async with desk.http.get(desk.url(""), headers={"Host": "evil.com"}) as response:
        assert named(response.headers) == HEADERS
    async with desk.socket() as socket:
        assert named(socket._response.headers) == HEADERS


def test_the_policy_allows_nothing_but_the_servers_own() -> None:
    policy = dict(p.strip().split(" ", 1) for p in HEADERS["Content-Security-Policy"].split(";"))
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        "font-src": "'self'",
        "manifest-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


async def test_text_of_a_model_or_a_user_is_never_html(open_desk: OpenDesk) -> None:
    evil = "<img src=x onerror=alert(1)>"
    desk = await open_desk(evil, settings=Settings(title=evil))
    run = await desk.begin(evil)
    for path in ("api/info", "api/runs", f"api/runs/{run['id']}/events", f"api/{evil}"):
        async with desk.http.get(desk.url(path)) as response:
            assert response.content_type in ("application/json", "text/event-stream")
            assert response.headers["X-Content-Type-Options"] == "nosniff"
    async with desk.http.get(desk.url("")) as response:
        assert evil not in await response.text()


# Too much


async def test_a_body_that_is_too_large_is_refused_before_it_is_read(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", settings=Settings(max_body=1000))
    status, told = await desk.post("api/runs", {"input": "x" * 2000})
    assert (status, told["error"]["code"]) == (413, "too_large")

    async def endless() -> Any:
        while True:
            yield b"x" * 500

    headers = {"Content-Type": "application/json"}
    try:
        async with desk.http.post(desk.url("api/runs"), data=endless(), headers=headers) as response:
            assert response.status == 413
    except aiohttp.ClientConnectionError:
        pass  # the server closed while we were still sending
    assert (await desk.get("api/runs"))[1]["runs"] == []


async def test_a_slow_client_delays_no_other_and_is_disconnected(open_desk: OpenDesk) -> None:
    desk = await open_desk("one", settings=Settings(body_seconds=0.05))
    host, _, port = desk.server.url.removeprefix("http://").rstrip("/").partition(":")
    slow = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
    for _, writer in slow[:10]:
        writer.write(b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Len")
    for _, writer in slow[10:]:
        head = b"POST /api/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b'Content-Length: 100\r\n\r\n{"in')
    await desk.begin()
    for reader, _ in slow[10:]:
        assert b" 408 " in await reader.readline()
    for _, writer in slow:
        writer.close()


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py",
        "static/..%2fapp.py",
        "static/%2e%2e/app.py",
        "static/%2e%2e%2fapp.py",
        "static/..%5capp.py",
        "static//etc/passwd",
        "static/%2fetc%2fpasswd",
        "static/main.js%00.html",
        "static/main.js/",
        "static/__init__.py",
        "static/",
        "static",
        "static/index.html",
    ],
)
async def test_no_path_leads_out_of_the_page(open_desk: OpenDesk, path: str) -> None:
    desk = await open_desk()
    head = f"GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n".encode()
    answer = await raw(desk.server.url, head)
    assert answer.split(b" ")[1] in (b"400", b"404")
    assert b"import" not in answer
    assert b"root:" not in answer


# Secrets


async def test_an_unexpected_error_is_sent_as_a_number_and_logged_without_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken() -> Any:
        raise RuntimeError("the vault is at /srv/vault")

    runner = web.AppRunner(make_app(broken, settings=LOCKED))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as http:
            with caplog.at_level(logging.ERROR):
                async with http.get(f"{url}/api/info?token={TOKEN}") as response:
                    assert response.status == 500
                    told = await response.json()
    finally:
        await runner.cleanup()
    message = told["error"]["message"]
    number = message.split()[-1]
    assert "vault" not in message
    assert number in caplog.text
    assert "/srv/vault" in caplog.text, "whoever runs the server sees what went wrong"
    assert TOKEN not in caplog.text


async def test_the_token_is_in_no_answer_no_log_and_no_text_of_an_object(
    open_desk: OpenDesk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    desk = await open_desk("one", settings=LOCKED, token=TOKEN)
    run = await desk.begin()
    await desk.ended(run["id"])
    told: list[str] = []
    for path in (f"?token={TOKEN}", "", "api/info", "api/runs", f"api/runs/{run['id']}/events"):
        async with desk.http.get(desk.url(path)) as response:
            told += [await response.text(), str(response.headers)]
    told += [repr(LOCKED), str(LOCKED), repr(make_app(desk.make_worker, settings=LOCKED))]
    assert TOKEN not in "".join(told)
    server_logs = [r.getMessage() for r in caplog.records if r.name.startswith(("aiohttp", "rxw"))]
    assert TOKEN not in "".join(server_logs)


async def raw(url: str, head: bytes) -> bytes:
    """The beginning of the answer to a request that no client would send."""
    host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head + b"Connection: close\r\n\r\n")
    answer = await reader.read(4096)
    writer.close()
    return answer


async def test_a_form_of_another_site_is_not_a_link(open_desk: OpenDesk) -> None:
    desk = await open_desk("Hi")
    navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    for method, status in (("GET", 200), ("HEAD", 200), ("POST", 403), ("PUT", 403)):
        async with desk.http.request(method, desk.url(""), headers=navigation) as answer:
            assert answer.status == status, method


async def test_an_application_that_is_mounted_has_a_limit_of_its_own() -> None:
    def make() -> Worker:
        return Worker(ScriptedModel([say("...") + stall()]))

    outer = web.Application()
    outer.add_subapp("/desk/", make_app(make, settings=Settings(max_connections=2)))
    outer.router.add_get("/", _hello)
    runner = web.AppRunner(outer, handler_cancellation=True)
    await runner.setup()
    assert runner.server is not None
    server = await asyncio.get_running_loop().create_server(runner.server, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession(address, trust_env=False) as http:
        run = (await (await http.post("/desk/api/runs", json={"input": "hi"})).json())["id"]
        streams = [await http.get(f"/desk/api/runs/{run}/events") for _ in range(2)]
        refused = await http.get("/desk/api/runs")
        told = await refused.json()
        assert (refused.status, told["error"]["code"]) == (503, "too_many_connections")
        assert await (await http.get("/")).text() == "hello"
        for stream in streams:
            stream.close()
    await stop_listening(server)
    await runner.cleanup()


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")
