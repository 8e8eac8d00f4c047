"""A run as a plain iterator, for scripts."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rxworker import Answer, Finished, Paused, Worker, before_tool_call, tool, worker_tool
from rxworker.errors import ConfigurationError, LocalProtocolError, ProviderError, RunCancelledError
from rxworker.events import Event, RunStart, RunStop, TextDelta, ToolStop
from rxworker.hooks import Pause, ToolCallContext
from rxworker.messages import validate
from rxworker.testing import ScriptedModel, call, fail, say, stall
from rxworker.worker import RunStream


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    if are_left():
        gc.collect()
    assert not are_left()


def are_left() -> bool:
    return any(thread.name == "rxworker-run" for thread in threading.enumerate())


@tool
def look(where: str) -> str:
    return f"nothing {where}"


def texts(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_a_for_loop_reads_all_events_and_the_stream_has_the_result() -> None:
    worker = Worker(ScriptedModel([call("look", where="here"), "Nothing."]), tools=[look])
    stream = worker.stream_sync("Where?")
    events = list(stream)
    assert isinstance(events[0], RunStart)
    assert isinstance(events[-1], RunStop)
    assert any(isinstance(event, ToolStop) for event in events)
    assert texts(events) == "Nothing."
    assert isinstance(stream.result, Finished)
    assert stream.result.text == "Nothing."
    assert list(stream) == []


def test_an_output_type_gives_a_value() -> None:
    stream = Worker(ScriptedModel(['{"a": 1}'])).stream_sync("?", output=dict[str, int])
    list(stream)
    assert stream.result.output == {"a": 1}


def test_one_run_after_the_other() -> None:
    worker = Worker(ScriptedModel(["one", "two", "three"]))
    assert [texts(list(worker.stream_sync("hi"))) for _ in range(2)] == ["one", "two"]
    assert worker.run_sync("hi").text == "three"
    assert len(worker.session.conversation.messages) == 6


def stalled() -> Worker:
    return Worker(ScriptedModel([say("Hello") + stall(), "again"]))


def read_hello(stream: RunStream[Any]) -> None:
    said = ""
    while said != "Hello":
        said += texts([next(stream)])


def leave_with_break(worker: Worker) -> None:
    stream = worker.stream_sync("hi")
    said = ""
    for event in stream:
        said += texts([event])
        if said == "Hello":
            break
    with pytest.raises(RunCancelledError, match="its stream was closed"):
        _ = stream.result


def leave_without_a_name(worker: Worker) -> None:
    said = ""
    for event in worker.stream_sync("hi"):
        said += texts([event])
        if said == "Hello":
            break


def leave_with_close(worker: Worker) -> None:
    stream = worker.stream_sync("hi")
    read_hello(stream)
    with pytest.raises(LocalProtocolError, match="has not ended"):
        _ = stream.result
    stream.close()
    stream.close()
    with pytest.raises(RunCancelledError):
        list(stream)


def leave_with_a_block(worker: Worker) -> None:
    with worker.stream_sync("hi") as stream:
        read_hello(stream)


def forget(worker: Worker) -> None:
    gc.freeze()  # the collection below need not look at what came before
    stream = worker.stream_sync("hi")
    read_hello(stream)
    del stream
    gc.collect()


def leave_with_an_exception(worker: Worker) -> None:
    def read() -> None:
        said = ""
        for event in worker.stream_sync("hi"):
            said += texts([event])
            if said == "Hello":
                raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        read()


@pytest.mark.parametrize(
    "leave",
    [leave_with_break, leave_without_a_name, leave_with_close, leave_with_a_block, forget, leave_with_an_exception],
)
def test_leaving_a_stream_cancels_its_run(leave: Callable[[Worker], None]) -> None:
    worker = stalled()
    leave(worker)
    assert validate(worker.session.conversation) == []
    assert worker.session.conversation.messages[-1].text == "Hello"
    assert worker.run_sync("and now?").text == "again"


def test_the_loop_raises_what_ended_the_run() -> None:
    stream = Worker(ScriptedModel([fail("invalid_request", retryable=False)])).stream_sync("hi")
    with pytest.raises(ProviderError):
        list(stream)
    with pytest.raises(ProviderError):
        _ = stream.result


def test_a_wrong_input_is_refused_at_once() -> None:
    wrong: Any = 3
    with pytest.raises(ConfigurationError):
        Worker(ScriptedModel(["hi"])).stream_sync(wrong)


async def test_where_an_event_loop_runs_it_is_refused() -> None:
    worker = Worker(ScriptedModel(["hi"]))
    with pytest.raises(LocalProtocolError, match=r"async for record in worker\.run"):
        worker.stream_sync("hi")
    with pytest.raises(LocalProtocolError, match=r"await worker\.resume"):
        worker.in_script(worker.resume)


def test_a_nested_worker_is_read_through_its_tool_call() -> None:
    inner = worker_tool(Worker(ScriptedModel(["A pond."])), name="write", description="Write.")
    worker = Worker(ScriptedModel([call("write", task="pond"), "Here."]), tools=[inner])
    events = list(worker.stream_sync("A verse."))
    assert texts(events) == "Here."
    assert sum(isinstance(event, RunStart) for event in events) == 1


def test_a_tool_may_stream_another_worker() -> None:
    @tool
    def write() -> str:
        return texts(list(Worker(ScriptedModel(["A pond."])).stream_sync("pond")))

    worker = Worker(ScriptedModel([call("write"), "Here."]), tools=[write])
    events = list(worker.stream_sync("A verse."))
    [stop] = [event for event in events if isinstance(event, ToolStop)]
    assert stop.result is not None
    assert stop.result.text == "A pond."


def test_a_slow_script_is_given_every_event() -> None:
    worker = Worker(ScriptedModel([say("x" * 5000)]))
    assert texts(list(worker.stream_sync("hi"))) == "x" * 5000


def test_an_interrupt_of_a_watcher_reaches_the_script() -> None:
    worker = Worker(ScriptedModel(["Hello"]))

    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    worker.timeline.on_text_block(interrupt)
    stream = worker.stream_sync("hi")
    with pytest.raises(KeyboardInterrupt):
        list(stream)
    with pytest.raises(RunCancelledError, match="KeyboardInterrupt"):
        _ = stream.result


@before_tool_call
def ask(context: ToolCallContext) -> Pause:
    return Pause("may it?")


def test_a_paused_run_is_resumed_in_a_script() -> None:
    worker = Worker(ScriptedModel([call("look", where="here"), "Nothing."]), tools=[look], hooks=[ask])
    stream = worker.stream_sync("Where?")
    list(stream)
    assert isinstance(stream.result, Paused)
    [waiting] = stream.result.pending
    result = worker.in_script(worker.resume, decisions={waiting.id: Answer("everything")})
    assert result.text == "Nothing."
    assert result.conversation.messages[2].tool_results[0].text == "everything"


def test_resume_outside_of_an_event_loop_names_the_entry_for_scripts() -> None:
    worker = Worker(ScriptedModel(["hi"]))
    with pytest.raises(LocalProtocolError, match=r"worker\.in_script\(worker\.resume"):
        worker.resume()
    with pytest.raises(LocalProtocolError, match=r"worker\.run_sync"):
        worker.run("hi")


SCRIPT = """
import sys
from rxworker import Worker, on_abort
from rxworker.events import TextDelta
from rxworker.testing import ScriptedModel, say, stall

@on_abort
def report(context):
    print("abort:", context.reason, flush=True)

worker = Worker(ScriptedModel([say("Hello") + stall(), "again"]), hooks=[report])
try:
    said = ""
    for event in worker.stream_sync("hi"):
        said += event.text if isinstance(event, TextDelta) else ""
        if said == "Hello":
            print("ready", flush=True)
            said = ""
            if sys.argv[1] == "body":
                import time
                time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", worker.session.conversation.messages[-1].text, flush=True)
    print(worker.run_sync("and now?").text, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no signals of this kind")
@pytest.mark.parametrize("where", ["wait", "body"])
def test_ctrl_c_cancels_the_run_and_reaches_the_script(where: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, where], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.splitlines() == ["abort: the run was cancelled: its stream was closed", "interrupted Hello", "again"], (
        err
    )
    assert process.returncode == 0
    assert err == ""


LEFT = """
from rxworker import Worker
from rxworker.testing import ScriptedModel, say, stall
stream = Worker(ScriptedModel([say("Hello") + stall()])).stream_sync("hi")
print(type(next(stream)).__name__)
"""


def test_a_script_that_leaves_a_stream_open_ends() -> None:
    done = subprocess.run([sys.executable, "-W", "always", "-c", LEFT], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("RunStart\n", "", 0)


def test_a_loop_elsewhere_does_not_matter() -> None:
    async def main() -> str:
        return await asyncio.to_thread(lambda: texts(list(Worker(ScriptedModel(["hi"])).stream_sync("hi"))))

    assert asyncio.run(main()) == "hi"


IN_INIT = """
import os, signal, threading, time
from rxworker import Worker
from rxworker.testing import ScriptedModel

worker = Worker(ScriptedModel(["again", "again"]))
begin = worker.run

def run(*args, **kwargs):  # in the thread of the run, while the constructor of the stream waits
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.2)
    return begin(*args, **kwargs)

worker.run = run
try:
    worker.stream_sync("hi")
except KeyboardInterrupt:
    print("interrupted", [t.name for t in threading.enumerate()])
worker.run = begin
print(worker.run_sync("and now?").text)
"""

IN_CLOSE = """
import asyncio, os, signal, threading
from rxworker import Worker, tool
from rxworker.events import ToolStart
from rxworker.testing import ScriptedModel, call

interrupted = threading.Event()

@tool
async def slow():
    try:
        await asyncio.Event().wait()
    finally:
        os.kill(os.getpid(), signal.SIGINT)
        while not interrupted.is_set():
            await asyncio.sleep(0.001)
        print("cleaned up")

stream = Worker(ScriptedModel([call("slow"), "again"]), tools=[slow]).stream_sync("hi")
while not isinstance(next(stream), ToolStart):
    pass
try:
    stream.close()
except KeyboardInterrupt:
    print("interrupted")
    interrupted.set()
stream.close()
print([t.name for t in threading.enumerate()])
"""


@pytest.mark.skipif(os.name == "nt", reason="there are no signals of this kind")
@pytest.mark.parametrize(
    ("script", "printed"),
    [(IN_INIT, ["interrupted ['MainThread']", "again"]), (IN_CLOSE, ["interrupted", "cleaned up", "['MainThread']"])],
    ids=["while the run begins", "while close waits"],
)
def test_ctrl_c_leaves_no_run(script: str, printed: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (printed, "", 0)
