"""A hook whose matcher matches no tool of a run never runs: the run does not start, or the log says so."""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import reactivex

from rxworker import Approve, Session, Worker, hook, tool
from rxworker.errors import ConfigurationError
from rxworker.hooks import Hook, HookPoint, Hooks, Pause, Skip, chain, ready
from rxworker.hooks.base import MATCHED, Matcher
from rxworker.hooks.points import OLDER_NAMES, point_of
from rxworker.log import MemoryLog
from rxworker.messages import ToolCall
from rxworker.testing import ScriptedModel, call
from rxworker.tools import Toolbox
from rxworker.worker import permit

MISSPELT: list[Matcher] = [
    "delete",
    "delete_*",
    "^delete",
    "Delete_file",
    "delete-file",
    " delete_file",
    "a,delete_file",
    re.compile("delete"),
    ["delete"],
    {"Delete_*"},
    "delete|remove",
]
FITTING: list[Matcher] = [
    "delete_file",
    "delete_.*",
    re.compile("(?i)DELETE_FILE"),
    {"delete_file"},
    ["delete_*"],
    frozenset({"*_file"}),
    "",
]


@tool
async def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def skip(context: object) -> None: ...


class Gate:
    """Its methods are compared with the points."""

    def __init__(self, matcher: Matcher, point: HookPoint, *, in_settings: bool) -> None:
        if in_settings:
            self.hook_settings = {"matcher": matcher}
        else:
            self.matcher = matcher
        setattr(self, point.value, skip)


def makers() -> Mapping[str, Callable[[Matcher], Any]]:
    """Every way to make a hook with a matcher."""
    found: dict[str, Callable[[Matcher], Any]] = {}
    for name, make in vars(ready).items():
        if inspect.isfunction(make) and name[0] != "_" and "matcher" in inspect.signature(make).parameters:
            found[name] = lambda m, make=make: make(matcher=m)
            found[f"{name}, replaced"] = lambda m, make=make: make().replace(matcher=m)
    for point in MATCHED:
        for name in (point.value, *[n for n, of in OLDER_NAMES.items() if point_of(of) is point]):
            found[name] = lambda m, name=name: hook(name, matcher=m)(skip)
        found[f"object, {point.value}"] = lambda m, at=point: Gate(m, at, in_settings=False)
        found[f"settings, {point.value}"] = lambda m, at=point: Gate(m, at, in_settings=True)
        found[f"chain, {point.value}"] = lambda m, at=point: chain(Hook(skip, at), matcher=m)
        found[f"link, {point.value}"] = lambda m, at=point: chain(Hook(skip, at), Hook(skip, at, matcher=m))
    return found


MAKERS = makers()


def worker_with(*hooks: Any, tools: Any = (delete_file,), **settings: Any) -> Worker:
    model = ScriptedModel([call("delete_file", path="a"), "Done.", "Done."])
    return Worker(model, tools=tools, hooks=hooks, **settings)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_run_does_not_start_with_a_matcher_that_matches_no_tool(make: Callable[[Matcher], Any]) -> None:
    for matcher in MISSPELT:
        worker = worker_with(make(matcher))
        with pytest.raises(ConfigurationError, match=r"would never run: its matcher .* \(delete_file\)"):
            worker.run("Delete a.")
        assert not worker.session.conversation.messages


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
async def test_run_starts_with_a_matcher_that_matches_a_tool(
    make: Callable[[Matcher], Any], caplog: pytest.LogCaptureFixture
) -> None:
    for matcher in FITTING:
        result = await worker_with(make(matcher)).run("Delete a.")
        assert (result.text, caplog.records) == ("Done.", [])


@pytest.mark.parametrize("matcher", FITTING[:-1], ids=repr)
async def test_names_and_globs_decide_about_the_tools_that_they_match(matcher: Matcher) -> None:
    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return path

    made: Hook[Any] = Hook(lambda _: Skip("no"), "before_tool_call", matcher=matcher)
    assert (made.matches("delete_file"), made.matches("read")) == (True, False)
    await worker_with(made, tools=[delete_file, read]).run("Delete a.")


async def test_error_names_the_tool_that_was_meant() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'delete_file'"):
        worker_with(hook("before_tool_call", matcher="delete-file")(skip)).run("Delete a.")


async def test_matcher_of_tools_that_come_later_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    late = hook("before_tool_call", matcher="move_file", unmatched="warn")(skip)
    worker = worker_with(late)
    await worker.run("Delete a.")
    await worker.run("Again.")
    [said] = [record for record in caplog.records if record.name == "rxworker.hooks"]
    assert (said.levelno, "'move_file'" in said.getMessage()) == (logging.WARNING, True)


async def test_alternative_that_matches_no_tool_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    for matcher in ("delete_file|remove", ["delete_file", "remove"]):
        caplog.clear()
        await worker_with(hook("before_tool_call", matcher=matcher)(skip)).run("Delete a.")
        [said] = caplog.records
        assert "'remove'" in said.getMessage()
        assert "'delete_file'" not in said.getMessage()


async def test_ready_hooks_with_their_usual_matchers_are_a_warning_if_no_tool_fits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool
    async def read(path: str) -> str:
        """Read a file."""
        return path

    worker = Worker(ScriptedModel(["Hello."]), tools=[read], hooks=ready.terminal_hooks())
    assert (await worker.run("Hello")).text == "Hello."
    said = " ".join(record.getMessage() for record in caplog.records)
    assert [name in said for name in ("dangerous_command_guard", "git_status", "auto_read")] == [True] * 3


async def test_hooks_of_a_worker_without_tools_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    await Worker(ScriptedModel(["Hello."]), hooks=ready.terminal_hooks()).run("Hello")
    assert not caplog.records


async def test_tool_that_was_added_is_matched_by_the_next_run() -> None:
    worker = worker_with(hook("before_tool_call", matcher="move_file")(skip))
    with pytest.raises(ConfigurationError):
        worker.run("Delete a.")

    @tool
    async def move_file(path: str) -> str:
        """Move a file."""
        return path

    worker.tools.add(move_file)
    assert (await worker.run("Delete a.")).text == "Done."
    worker.tools.remove("move_file")
    with pytest.raises(ConfigurationError):
        worker.run("Again.")


async def test_stored_and_paused_runs_do_not_continue_without_a_hook() -> None:
    """Nothing is stored and nothing is decided: the run still waits for a process whose hooks run."""
    log = MemoryLog()
    pausing = hook("before_tool_call", matcher="delete_file", name="gate")(lambda _: Pause())
    first = worker_with(pausing, log=log)
    paused = await first.run("Delete a.")
    other = worker_with(hook("before_tool_call", matcher="delete", name="gate")(skip), log=log)
    with pytest.raises(ConfigurationError, match="'gate' would never run"):
        other.resume(paused)  # type: ignore[arg-type]
    for begin in (
        lambda: Session(other).decide(paused.run_id, [Approve()]),
        lambda: Session(other).fork(paused.run_id, 3),
    ):
        with pytest.raises(ConfigurationError, match="'gate' would never run"):
            await begin()
    assert len(await log.list()) == 1
    assert await log.sent(paused.run_id) == []
    assert "is gone" in str((await Session(first).decide(paused.run_id, [Approve()])).conversation)


async def test_composed_operator_refuses_a_matcher_that_matches_no_tool() -> None:
    box = Toolbox([delete_file])
    calls = reactivex.just(ToolCall("1", "delete_file", {"path": "a"}))
    hooks = Hooks([hook("before_tool_call", matcher="delete")(skip)])
    with pytest.raises(ConfigurationError, match="would never run"):
        await calls.pipe(permit(hooks, box))


@pytest.mark.parametrize("matcher", [[], [""], [1], b"delete_file", "(", 7], ids=repr)
def test_other_values_than_matchers_are_refused(matcher: Any) -> None:
    with pytest.raises(ConfigurationError, match="matcher of hook 'skip'"):
        hook("before_tool_call", matcher=matcher)(skip)


def test_setting_that_is_not_known_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="unmatched='ignore'"):
        hook("before_tool_call", matcher="a", unmatched="ignore")(skip)  # type: ignore[typeddict-item]
