"""``rxworker serve`` as a person meets it: processes, signals, and a browser's requests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from queue import Queue
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from rxworker import Approve, Finished, Paused
from rxworker.cli import main
from rxworker.cli.demo_script import demo_worker
from rxworker.panels import RUNS
from rxworker.testing import ReplayServer
from tests.ports import free_port

if sys.platform == "win32":
    pytest.skip("signals are others there", allow_module_level=True)

TOKEN = "a-very-secret-token-0123456789"
COMMAND = [sys.executable, "-m", "rxworker", "serve"]
MODEL = ["--provider", "anthropic", "--model", "m"]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("THE_TOKEN", TOKEN)


@contextmanager
def serving(*options: str, port: str = "0") -> Generator[tuple[subprocess.Popen[str], str], None, None]:
    """The command, and the address that it prints."""
    with subprocess.Popen(
        [*COMMAND, *options, "--port", port],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUTF8": "1"},
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert first.startswith("rxworker serves http://127.0.0.1:"), first
            yield process, first.split()[-1]
        finally:
            process.kill()


def ask(url: str, body: object = None, **headers: str) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


@pytest.mark.slow
def test_ctrl_c_ends_it_and_another_can_begin_at_once_on_the_same_port() -> None:
    port = str(free_port())
    with serving("--demo", port=port) as (process, url):
        run = ask(f"{url}api/runs", {"input": "Where to?"})
        assert run["status"] == "running"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (130, "\n")
    with serving("--demo", port=port) as (process, again):
        assert again == url
        assert ask(f"{url}api/runs")["runs"] == []
        process.terminate()
        _, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["serve", "--demo", "--port", str(port)]) == 1
    error = capsys.readouterr().err
    assert f"port {port} of 127.0.0.1 is in use" in error
    assert "another one with --port, 0 for any" in error
    assert error.count("\n") == 1


def test_a_provider_answers_who_has_the_token_and_the_server_is_not_ready_when_it_is_stopped() -> None:
    key = {"Authorization": f"Bearer {TOKEN}"}
    options = ["--api-key-env", "THE_TOKEN", "--token-env", "THE_TOKEN", "--close-delay", "60"]
    with ReplayServer(["Hello!"]) as service, serving(*MODEL, "--base-url", service.base_url, *options) as served:
        process, url = served
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "THE_TOKEN" in line
        assert TOKEN not in line
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(f"{url}api/runs")
        assert refused.value.code == 401
        refused.value.close()
        [worker] = ask(f"{url}api/info", **key)["workers"]
        assert (worker["provider"], worker["model"]) == ("anthropic", "m")
        run = ask(f"{url}api/runs", {"input": "hi"}, **key)["id"]
        request = urllib.request.Request(f"{url}api/runs/{run}/events", headers=key)
        with urllib.request.urlopen(request, timeout=60) as response:
            lines = response.read().decode().splitlines()
        process.terminate()
        with pytest.raises(urllib.error.HTTPError) as refused:  # noqa: PT012 - until it has the signal
            while True:
                urllib.request.urlopen(f"{url}readyz", timeout=60).close()
        with refused.value as response:
            assert (response.code, response.read()) == (503, b"closing\n")
        assert [each["id"] for each in ask(f"{url}api/runs", **key)["runs"]] == [run]
    told = [json.loads(line.removeprefix("data: ")) for line in lines if '"text_delta"' in line]
    # In pieces, where they came in several reads.
    assert "".join([record["event"]["text"] for record in told]) == "Hello!"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ([], "--queue, --demo, or --tap"),
        (["--provider", "anthropic"], "--queue, --demo, or --tap"),
        (["--demo", "--host", "0.0.0.0"], "--token-env"),
        (["--demo", "--host", "example.com"], "--token-env"),
        (["--demo", "--token-env", "NOT_THERE"], "'NOT_THERE' is not set"),
        (["--demo", "--port", "70000"], "from 0 to 65535"),
        (["--demo", "--port", "x"], "from 0 to 65535"),
        (["--demo", "--allow-host", "10.0.0.1/8"], "allowed_hosts"),
        (["--provider", "owl", "--model", "m"], "unknown provider"),
        ([*MODEL, "--tool", "nothing"], "module:function"),
        (["--demo", "--dashboard", "nothing"], "my_boards:board"),
        (["--demo", "--dashboard", "rxworker.panels:runs"], "not a Dashboard"),
        (["--demo", "--on-alert", "https://example.com/"], "--alert-secret-env"),
        (["--demo", "--alert-secret-env", "THE_TOKEN"], "--on-alert URL"),
        (
            ["--demo", "--on-alert", "https://example.com/", "--alert-secret-env", "THE_TOKEN"],
            "--dashboard with a panel that has alert=",
        ),
        # what only the terminal has
        ([*MODEL, "--plain"], "--plain"),
        ([*MODEL, "--no-hooks"], "--no-hooks"),
    ],
)
def test_a_misuse_is_one_line_that_names_the_remedy(
    options: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *options]) == 2
    error = capsys.readouterr().err
    assert hint in error
    assert error.count("\n") == 1


MAKERS = """
from rxworker import Worker
from rxworker.log import RunInfo
from rxworker.testing import ScriptedModel
from tests.ports import free_port

def make_clerk():
    return Worker(ScriptedModel(["I am the clerk."]))

def cook(request):
    return Worker(ScriptedModel(["I am the cook."]))

def make_queued(info: RunInfo):
    return make_clerk()


def make_both(request, tenant, *, name="clerk"):
    return make_clerk()
"""


@pytest.fixture
def makers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with functions that make workers."""
    name = f"makers_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MAKERS)
    monkeypatch.chdir(tmp_path)
    return name


def test_workers_of_ones_own_are_served_beside_others(makers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[str] = []

    def run_server(workers: dict[str, object], **_: object) -> int:
        served.extend(workers)
        return 0

    monkeypatch.setattr("rxworker.cli.serve.run_server", run_server)
    given = [f"{makers}:make_clerk", f"chef={makers}:cook", "--queue", "baker", "--demo"]
    assert main(["serve", *given, "--log", "memory:"]) == 0
    assert served == ["clerk", "chef", "baker", "scripted demo"]


def test_the_page_shows_the_dashboards_that_are_named(
    makers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[object] = []

    def run_server(
        workers: object, *, ready: Callable[[object], None], dashboards: list[object] | None, **_: object
    ) -> int:
        shown.append(dashboards)
        ready(SimpleNamespace(url="http://127.0.0.1:1/"))
        return 0

    monkeypatch.setattr("rxworker.cli.serve.run_server", run_server)
    given = ["serve", f"{makers}:make_clerk"]
    assert main(given) == 0
    assert "boards" not in capsys.readouterr().out
    assert main([*given, "--dashboard", "rxworker.panels:RUNS"]) == 0
    assert "http://127.0.0.1:1/boards/runs\n" in capsys.readouterr().out
    assert shown == [None, [RUNS]]
    assert main([*given, "--dashboard", f"{makers}:cook"]) == 2
    assert "not a Dashboard" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        (["make_queued"], "serve its runs with --queue"),
        (["make_clerk", "make_clerk"], "write NAME=MODULE:FUNCTION"),
        (["nothing"], "nothing"),
        (["make_both"], "it needs request, tenant: give a function of at most one argument"),
    ],
)
def test_a_function_that_cannot_be_served_is_refused(
    given: list[str], hint: str, makers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *[f"{makers}:{name}" for name in given]]) == 2
    assert hint in capsys.readouterr().err


def test_a_token_that_is_too_short_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("THE_TOKEN", "short")
    assert main(["serve", "--demo", "--token-env", "THE_TOKEN"]) == 2
    error = capsys.readouterr().err
    assert "too short" in error
    assert "'short'" not in error


BOARDS = """
from rxworker.boards import Dashboard, above, panel
from rxworker.events import RunStart
from rxworker.panels import count

board = Dashboard([panel("Runs begun", count(RunStart), alert=above(0))], title="Desk")
"""
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Receiver(BaseHTTPRequestHandler):
    """Receives alerts, and answers the first one with a failure."""

    received: Queue[tuple[Message, bytes]]
    is_first = True

    def do_POST(self) -> None:
        self.received.put((self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(503 if self.is_first else 204)
        type(self).is_first = False
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base has it
        """Be quiet."""


@pytest.mark.slow
def test_alerts_of_ones_own_dashboard_are_sent_signed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_boards.py").write_text(BOARDS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALERT_SECRET", SECRET)
    received: Queue[tuple[Message, bytes]] = Queue()
    handler = type("Handler", (Receiver,), {"received": received})
    with HTTPServer(("127.0.0.1", 0), handler) as receiver:
        thread = threading.Thread(target=receiver.serve_forever)
        thread.start()
        to = f"http://127.0.0.1:{receiver.server_port}/hooks/hidden"
        boards = ("--dashboard", "my_boards:board", "--on-alert", to)
        try:
            with serving("--demo", *boards, "--alert-secret-env", "ALERT_SECRET") as served:
                process, url = served
                shown = ask(f"{url}api/boards")["boards"]
                assert [each["name"] for each in shown] == ["desk", "usage"]
                ask(f"{url}api/runs", {"input": "Where to?"})
                first, second = received.get(timeout=60), received.get(timeout=60)
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=60)
        finally:
            receiver.shutdown()
            thread.join()
    assert first[1] == second[1]
    verifier = openai.OpenAI(api_key="none", webhook_secret=SECRET).webhooks
    for headers, body in (first, second):
        verifier.verify_signature(body, dict(headers.items()))
        assert json.loads(body)["data"]["panel"] == "runs-begun"
    assert "an alert was not received" in err
    for hidden in (SECRET, SECRET.removeprefix("whsec_"), "hidden"):
        assert hidden not in out + err


def test_help_is_not_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--help"]) == 0
    assert "--token-env" in capsys.readouterr().out


async def test_the_demo_forecasts_and_pauses_before_it_books() -> None:
    worker = demo_worker(fast=True)
    paused = await worker.run("Please book it.")
    assert isinstance(paused, Paused)
    assert [call.name for call in paused.pending] == ["book_room"]
    finished = await worker.resume(decisions={paused.pending[0].id: Approve()})
    assert isinstance(finished, Finished)
    assert "booked" in finished.text
