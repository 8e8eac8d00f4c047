from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
import webbrowser

import msgspec
import pytest

from rxworker import Approve, Deny, Paused, RunResult
from rxworker.cli.demo_script import SCRIPTED, demo_worker, next_answer
from rxworker.cli.serve import WATCHERS, begin, watch_each
from rxworker.events import HookMessage, Record
from rxworker.messages import Conversation, Message
from rxworker.providers import Request
from rxworker.ui.web import WebServer


async def play(decision: Approve | Deny) -> RunResult[None]:
    worker = demo_worker(fast=True, always_books=True)
    paused = await worker.run("Where to?")
    assert isinstance(paused, Paused)
    assert [call.name for call in paused.pending] == ["book_room"]
    return await worker.resume(decisions={paused.pending[0].id: decision})


async def test_the_script_books_when_the_user_agrees() -> None:
    assert "Your room is booked" in (await play(Approve())).text


async def test_the_script_does_not_book_when_the_user_refuses() -> None:
    assert "I book nothing" in (await play(Deny("too dear"))).text


def test_every_question_plays_the_script_again() -> None:
    said = Conversation((Message.user("A"), Message.assistant("B"), Message.user("C")))
    calls = next_answer(Request(said), always_books=True).tool_calls
    assert [call.name for call in calls] == ["forecast", "forecast"]


async def test_three_watchers_of_different_speeds_are_at_each_run() -> None:
    run = demo_worker(fast=True, always_books=True).run("Where to?")
    watch_each(fast=True)(run)
    await run
    names = {name for name, _, _ in WATCHERS}
    assert {watcher.name for watcher in run.watchers.now} == names
    assert len({delivery for _, delivery, _ in WATCHERS}) == 3


async def ready(monkeypatch: pytest.MonkeyPatch, *, opens: bool) -> tuple[list[str], list[str]]:
    """What is opened, and what runs there are, when the demo's server has begun."""
    opened: list[str] = []
    done = threading.Event()

    def open_page(url: str) -> bool:
        opened.append(url)
        done.set()
        return True

    monkeypatch.setattr(webbrowser, "open", open_page)
    async with WebServer(lambda: demo_worker(fast=True), port=0) as server:
        begin(server, open_page=opens)
        if opens:
            await asyncio.to_thread(done.wait, 5)
        runs = [entry.id for entry in server.state.runs]
        return [url.removeprefix(server.url) for url in opened], runs


async def test_the_page_is_opened_on_a_run_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, runs = await ready(monkeypatch, opens=True)
    assert len(runs) == 1
    assert opened == [f"#{runs[0]}"]


async def test_a_run_begins_where_the_browser_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, runs = await ready(monkeypatch, opens=False)
    assert opened == []
    assert len(runs) == 1


@pytest.mark.parametrize("always_books", [False, True])
async def test_each_run_reports_once_that_it_is_scripted(always_books: bool) -> None:
    run = demo_worker(fast=True, always_books=always_books).run("Where to?")
    seen: list[Record] = []
    run.subscribe(seen.append, lambda _: None)
    await run
    said = [r.event.content for r in seen if isinstance(r.event, HookMessage)]
    assert said == [SCRIPTED]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_the_demo_serves_the_page_and_ends_cleanly_with_ctrl_c() -> None:
    # Every warning, and not `-X dev`: on a slow machine asyncio then reports steps that take a while.
    command = [sys.executable, "-W", "always", "-m", "rxworker", "demo", "--web", "--port", "0", "--no-open"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1", "NO_PROXY": "127.0.0.1"},
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        assert found is not None
        assert "script" in process.stdout.readline()
        assert f"{found[0]}#" in process.stdout.readline()
        with urllib.request.urlopen(f"{found[0]}api/info", timeout=60) as info:
            assert msgspec.json.decode(info.read())["title"] == "rxworker demo"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors.strip()) == (130, "")
