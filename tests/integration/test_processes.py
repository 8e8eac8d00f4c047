"""Whole programs, each in a process of its own: how they end, and what they leave behind on stderr."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from rxworker.testing import ReplayServer, ServedResponse, call, fail, say, stall
from rxworker.testing.server import AnswerLike

PATIENCE = 60.0
BEGIN = """
import asyncio, logging, signal, sys, threading
# How long a step of the event loop takes depends on the machine.
logging.getLogger("asyncio").addFilter(lambda record: not record.getMessage().startswith("Executing"))
signal.signal(signal.SIGINT, signal.default_int_handler)  # however the tests themselves were started
from rxworker import Worker, after_tool_call, on_abort, on_message_send, tool
from rxworker.events import TextDelta, ToolStart
from rxworker.providers import Anthropic, OpenAIChat

model = Anthropic("a-model", base_url=sys.argv[1])

def ready():
    print("ready", flush=True)

"""
TWO_LOOPS = """
worker = Worker(model)

async def main():
    print((await worker.run("hi")).text)

asyncio.run(main())
asyncio.run(main())
print(worker.run_sync("hi").text)
print(len(worker.session.conversation.messages))
"""
FAILING = """
from rxworker.errors import RxWorkerError
from rxworker.transport import Retry

async def main():
    for _ in range(3):
        try:
            await Worker(model, response_retry=Retry(retries=0)).run("hi")
        except RxWorkerError as error:
            print(type(error).__name__)

asyncio.run(main())
"""
LEFT_ALONE = """
async def main():
    run = Worker(model).run("hi")
    async for record in run:
        if isinstance(record.event, TextDelta):
            break
    print("left")

asyncio.run(main())
"""
CANCELLED = """
async def main():
    worker = Worker(model)
    run = worker.run("hi")
    async for record in run:
        if isinstance(record.event, TextDelta):
            break
    await run.cancel()
    print((await worker.run("again")).text)

asyncio.run(main())
"""
UVLOOP = """
import uvloop

async def main():
    print((await Worker(model).run("hi")).text)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """The program that a test asks for, talking to a server with the answers it asks for."""
    text, answers = request.param
    with ReplayServer(answers) as server:
        command = [sys.executable, "-W", "error", "-c", BEGIN + text, server.base_url]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def row(name: str, text: str, *answers: AnswerLike, says: str = "") -> object:
    """A program, what its server answers, and what it says."""
    return pytest.param((text, list(answers)), says, id=name)


def runs(*rows: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("program", "says"), rows, indirect=["program"])


def end_of(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=PATIENCE)
    for complaint in ("Unclosed", "unclosed", "destroyed", "never retrieved", "ResourceWarning"):
        assert complaint not in err, err
    return out, err


@pytest.mark.product(2)
@runs(
    row("two loops", TWO_LOOPS, "one", "two", "three", says="one\ntwo\nthree\n6\n"),
    row("left alone", LEFT_ALONE, say("Hello") + stall(), says="left\n"),
    row("cancelled", CANCELLED, say("Hello") + stall(), "again", says="again\n"),
    row(
        "refused, and failing and cut in the middle",
        FAILING,
        ServedResponse.from_status(401, body={"error": {"message": "no"}}),
        say("Hel") + fail("busy", "overloaded"),
        ServedResponse.from_reply(say("Hello, world"), cut_after=4),
        says="ProviderError\nProviderError\nTransportError\n",
    ),
)
def test_a_program_ends_without_complaints(program: subprocess.Popen[str], says: str) -> None:
    out, err = end_of(program)
    assert (program.returncode, out, err) == (0, says, "")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="uvloop is not installed")
@runs(row("uvloop", UVLOOP, "one", "two", says="one\ntwo\n"))
def test_another_event_loop_does_as_well(program: subprocess.Popen[str], says: str) -> None:
    assert end_of(program) == (says, "")


STREAMING = """
async def main():
    worker = Worker(model)
    async for record in worker.run("hi"):
        if isinstance(record.event, TextDelta):
            ready()
            break
    await asyncio.Event().wait()

asyncio.run(main())
"""
AWAITING = """
async def main():
    run = Worker(model).run("hi")
    run.events.subscribe(lambda event: ready() if isinstance(event, TextDelta) else None)
    await run

asyncio.run(main())
"""
SYNC = """
@on_message_send
def notice(context):
    threading.Timer(0, ready).start()

worker = Worker(model, hooks=[notice])
try:
    worker.run_sync("hi")
finally:
    print(worker.session.conversation.messages[0].text, len(worker.session.conversation.messages))
"""
TOOL_THREAD = """
@tool
def hang() -> str:
    "Hang."
    ready()
    threading.Event().wait()
    return ""

worker = Worker(model, tools=[hang])
try:
    worker.run_sync("hi")
finally:
    print(worker.session.conversation.messages[-1].tool_results[0].is_error)
"""
ASYNC_TOOL = """
@tool
async def hang() -> str:
    "Hang."
    ready()
    try:
        await asyncio.Event().wait()
    finally:
        print("let go")
    return ""

worker = Worker(model, tools=[hang])
worker.run_sync("hi")
"""
HOOK = """
@on_message_send
async def hang(context):
    ready()
    await asyncio.Event().wait()

@on_abort
def told(context):
    print(context.cause)

Worker(model, hooks=[hang, told]).run_sync("hi")
"""
RETRYING = """
import logging
from rxworker.transport import Client, Retry

class Telling(Retry, frozen=True):
    def delay(self, error, attempt, chance=lambda: 0.0):
        ready()
        return 3600.0

Worker(Client(model, retry=Telling())).run_sync("hi")
"""


AGAIN = """
worker = Worker(model)
heard = []

def once(event):
    if not heard:
        heard.append(event)
        ready()

worker.timeline.on_text_block(once)
try:
    worker.run_sync("hi")
except KeyboardInterrupt:
    print(worker.run_sync("again").text, worker.session.conversation.messages[0].text)
"""


@runs(row("again", AGAIN, say("Hi") + stall(), "Hello", says="Hello hi\n"))
def test_after_control_c_the_worker_can_run_again(program: subprocess.Popen[str], says: str) -> None:
    assert program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    assert end_of(program) == (says, "")
    assert program.returncode == 0


@pytest.mark.product(3)
@runs(
    row("streaming", STREAMING, say("Hello") + stall()),
    row("awaiting", AWAITING, say("Hi") + stall()),
    row("before the answer", SYNC, ServedResponse.from_frames([], delay=3600), says="hi 1\n"),
    row("in a thread", TOOL_THREAD, call("hang"), says="True\n"),
    row("in a tool", ASYNC_TOOL, call("hang"), says="let go\n"),
    row("in a hook", HOOK, "never asked", says="cancel\n"),
    row("between two attempts", RETRYING, ServedResponse.from_status(503)),
)
def test_control_c_ends_a_program_at_once_with_nothing_but_its_own_traceback(
    program: subprocess.Popen[str], says: str
) -> None:
    assert program.stdout is not None
    line = program.stdout.readline()
    assert line == "ready\n", end_of(program)[1]
    program.send_signal(signal.SIGINT)
    out, err = end_of(program)
    assert (program.returncode, out) == (-signal.SIGINT, says)
    assert err.strip().endswith("KeyboardInterrupt")
    assert "exception was never" not in err
    assert "RunCancelledError" not in err
