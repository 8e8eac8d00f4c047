"""Compare rxworker with its peers.

The same tests of a run, each against the newest version from PyPI, and a table of what happened.

    python examples/compare                       all, in temporary environments; prints the table
    python examples/compare rxworker langgraph    some of them
    python examples/compare --folder F            environments in a folder, which a second run upgrades
    python examples/compare --write               writes the table into docs/explanation/comparison.md
    python examples/compare --rules               which rules of rxworker.testing.conformance their own streams keep

Run it with the Python in which rxworker is installed. The programs are beside this file, one for each peer, and
`kit.py` has what they share. Each speaks through its own client to one local server, which answers in the protocol of
the peer. The network is needed for the installation only, and no key.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import functools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import kit

from rxworker.messages import Json, JsonObject
from rxworker.testing import ReplayServer, Reply, ServedResponse, call, cut, fail, say
from rxworker.testing.server import AnswerLike, Received

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGE = ROOT / "docs" / "explanation" / "comparison.md"
BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"


class Peer(NamedTuple):
    """A peer: its heading, what pip installs for it, and the packages whose versions the table shows."""

    title: str
    installs: tuple[str, ...]
    shown: tuple[str, ...]


PEERS = {
    "rxworker": Peer("rxworker", (), ("rxworker",)),
    "pydantic_ai": Peer("pydantic-ai", ("pydantic-ai-slim[openai,dbos]",), ("pydantic-ai-slim", "dbos")),
    "openai_agents": Peer("openai-agents", ("openai-agents", "dbos-openai-agents"), ("openai-agents", "dbos")),
    "langgraph": Peer(
        "LangGraph",
        ("langgraph", "langchain", "langchain-openai", "langgraph-checkpoint-sqlite"),
        ("langgraph", "langchain", "langgraph-checkpoint-sqlite"),
    ),
    "ag2": Peer("AG2", ("ag2[openai]",), ("ag2",)),
    "agno": Peer("agno", ("agno[os]", "openai"), ("agno",)),
    "strands": Peer("Strands Agents", ("strands-agents[openai]",), ("strands-agents",)),
    "openai": Peer("OpenAI SDK", ("openai",), ("openai",)),
    "anthropic": Peer("Anthropic SDK", ("anthropic",), ("anthropic",)),
}


PATIENCE = 3
"""How many seconds a connection may take to close."""
CANCELS = 5
"""How often a cancel is tried: what leaves the connection to the garbage collector closes it sometimes."""


class Result(NamedTuple):
    """What a program has reported of a case, and what the server and the folder have seen of it."""

    outcome: kit.Outcome
    requests: int = 0
    closed: float | None = None
    effects: tuple[str, ...] = ()


def words(seen: str) -> str:
    """How much of the answer a consumer has received."""
    if seen == kit.TEXT:
        return "all"
    return "nothing" if not seen else f"{len(seen) // kit.PIECE} of {kit.WORDS}"


def ran(outcome: kit.Outcome) -> str:
    """What to add where the run did not finish."""
    if outcome.get("answer") == kit.TEXT:
        return ""
    error = outcome.get("error")
    return "; the run has no end" if error in ("", "waits") else f"; the run fails: `{error}`"


def show_two(result: Result) -> str:
    """All, or what each of the two has."""
    seen = [words(each) for each in result.outcome.get("seen", [])]
    waits = "; one waits for ever" if result.outcome.get("error") == "waits" else ""
    return ", ".join(dict.fromkeys(seen)) + waits + ran(result.outcome)


def show_raises(result: Result) -> str:
    """What the other consumer has, and whether the run fails."""
    _, other = result.outcome.get("seen", ["", ""])
    return words(other) + ran(result.outcome)


def show_slow(result: Result) -> str:
    """How long the run takes with a slow consumer, and without."""
    took, usual = result.outcome.get("seconds", 0.0), result.outcome.get("usual", 0.0)
    return f"{took:.2f}, {usual:.2f}{ran(result.outcome)}"


def show_late(result: Result) -> str:
    """What a late consumer receives."""
    error = result.outcome.get("error")
    if error:
        return "waits for ever" if error == "waits" else f"`{error}`"
    return words(result.outcome.get("seen", [""])[0])


def show_reload(result: Result) -> str:
    """What the page has after it was opened again, and whether the run goes on."""
    return show_late(result) + ran(result.outcome)


def show_kill(result: Result) -> str:
    """How many of the finished calls were made again, or why the run was not continued."""
    counts = Counter(result.effects)
    repeated = sum(counts[name] > 1 for name in NAMES[:2])
    if result.outcome.get("answer") != DONE:
        return f"not continued: `{result.outcome.get('error')}`"
    return f"{repeated} of 2"


def show_cancel(result: Result) -> str:
    """How long the connection stays open."""
    if result.closed is None:
        return f"open after {PATIENCE * 1000}"
    return f"{result.closed * 1000:.0f}"


def show_overloaded(result: Result) -> str:
    """Whether the run came to its answer, and in how many requests."""
    if result.outcome.get("answer") != kit.TEXT:
        return f"`{result.outcome.get('error')}`"
    return f"answered, {result.requests} requests"


def show_broken(result: Result) -> str:
    """The same, and what the consumer has in the end where that is not the answer."""
    (seen,) = result.outcome.get("seen", [""])
    if result.outcome.get("answer") != kit.TEXT or seen == kit.TEXT:
        return show_overloaded(result)
    twice = kit.TEXT[: len(kit.TEXT) // 2] + kit.TEXT
    note = "the first half twice" if seen == twice else words(seen)
    return f"{show_overloaded(result)}; the consumer has {note}"


def show_cpu(result: Result) -> str:
    """Milliseconds, and how often those of a bare loop."""
    outcome = result.outcome
    if "ratio" not in outcome or "milliseconds" not in outcome:
        return f"`{outcome.get('error')}`"
    return f"{outcome['milliseconds']:.0f}, {outcome['ratio']:.1f}"


DONE = "All is done."
NAMES = ("pay", "book", "order")


def tools(at_once: bool) -> Callable[[Received], AnswerLike]:
    """A model that calls three tools, one after the other or in one response, and answers when it has the results."""

    def answer(request: Received) -> AnswerLike:
        results = len(re.findall(r"(?:paid|booked|ordered) 1", json.dumps(request.body)))
        wanted = NAMES[results:] if at_once else NAMES[results : results + 1]
        if is_streamed(request):
            return functools.reduce(
                Reply.__add__, [call(name, number=1) for name in wanted], say("" if wanted else DONE)
            )
        return ServedResponse.from_json(whole_response(wanted))

    return answer


def is_streamed(request: Received) -> bool:
    """Whether a request is to be answered with a stream."""
    return isinstance(request.body, Mapping) and request.body.get("stream") is True


def whole_response(wanted: Sequence[str]) -> JsonObject:
    """A response of OpenAI's Responses in one piece: DBOS runs openai-agents without streams."""
    calls: list[Json] = [
        {
            "type": "function_call",
            "id": f"fc_{name}",
            "call_id": f"call_{name}",
            "name": name,
            "arguments": '{"number":1}',
            "status": "completed",
        }
        for name in wanted
    ]
    text: Json = {"type": "output_text", "text": DONE, "annotations": []}
    message: Json = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": "gpt-5.2",
        "output": calls or [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def served(reply: Reply, pace: float = 0.0) -> Callable[[Received], AnswerLike]:
    """The same answer for each request."""
    return lambda _: ServedResponse.from_reply(reply, pace=pace)


def after(*first: AnswerLike) -> Callable[[Received], AnswerLike]:
    """These answers, and then the whole one."""
    left = list(first)
    return lambda _: left.pop(0) if left else WHOLE


WHOLE = say(kit.TEXT, chunk=kit.PIECE)
OVERLOADED = ServedResponse.from_status(
    529, body={"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
)
HALF = say(kit.TEXT[: len(kit.TEXT) // 2], chunk=kit.PIECE) + fail("Overloaded", "overloaded")
MANY = say("wordword" * kit.DELTAS, chunk=kit.PIECE)


class Row(NamedTuple):
    """A row of the table: the case of the programs, what the server answers, and how the result is shown."""

    title: str
    case: str
    answers: Callable[[], Callable[[Received], AnswerLike]]
    show: Callable[[Result], str]


ROWS = (
    Row("two consumers receive", "two", lambda: served(WHOLE), show_two),
    Row("one of two raises: the other receives", "raises", lambda: served(WHOLE), show_raises),
    Row("one takes 10 ms for a delta: seconds of the run, and without it", "slow", lambda: served(WHOLE), show_slow),
    Row("one comes after the end: it receives", "late", lambda: served(WHOLE), show_late),
    Row("a page reloads: it receives", "reload", lambda: served(WHOLE, 0.002), show_reload),
    Row("killed in the third turn: finished calls repeated", "kill", lambda: tools(False), show_kill),
    Row("killed in the third of three calls: finished ones repeated", "kill", lambda: tools(True), show_kill),
    Row(
        f"cancel: milliseconds until the connection closes, slowest of {CANCELS}",
        "cancel",
        lambda: served(WHOLE, 0.02),
        show_cancel,
    ),
    Row("overloaded (529) twice", "overloaded", lambda: after(OVERLOADED, OVERLOADED), show_overloaded),
    Row("overloaded after half of the text", "broken", lambda: after(HALF), show_broken),
    Row(
        f"{kit.DELTAS} deltas: milliseconds of processor time, times a bare loop", "cpu", lambda: served(MANY), show_cpu
    ),
)


def variables(server: ReplayServer, folder: Path) -> dict[str, str]:
    """The environment of a program."""
    return {
        **os.environ,
        "COMPARE_PORT": server.base_url.rpartition(":")[2],
        "COMPARE_FOLDER": str(folder),
        "NO_PROXY": kit.HOST,
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
    }


def run_program(python: Path, name: str, case: str, server: ReplayServer, folder: Path) -> Result:
    """Run one case of a program in a process of its own."""
    closed = None
    lines: list[str] = []
    with subprocess.Popen(
        [python, "-W", "ignore", HERE / f"with_{name}.py", case],
        env=variables(server, folder),
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line == "cancelling\n":
                begun = time.perf_counter()
                with contextlib.suppress(TimeoutError):
                    asyncio.run(server.wait_closed(PATIENCE))
                    closed = time.perf_counter() - begun
                process.stdin.close()
    reported = [line for line in lines if line.startswith("{")]
    if not reported and case != "kill":
        sys.exit(f"with_{name}.py {case} reported nothing:\n{''.join(lines)}")
    outcome: kit.Outcome = json.loads(reported[-1]) if reported else {}
    return Result(outcome, len(server.requests), closed, tuple(kit.effects(folder)))


def called(request: Received) -> AnswerLike:
    """A model that calls the tool of the request once, and has the result of a run inside it, where there is one."""
    sent = json.dumps(request.body)
    if '"role": "tool"' in sent or "function_call_output" in sent:
        return say("All is done.")
    if INSIDE in sent:
        return say("inner words", chunk=6)
    if '"delegate_task_to_member"' in sent:  # agno's
        return call("delegate_task_to_member", member_id="ask", task=INSIDE)
    return call("ask", task=INSIDE) if '"ask"' in sent else call("look", number=1)


RULED = ("rxworker", "pydantic_ai", "openai_agents", "langgraph", "ag2", "agno", "strands")
"""The peers with runs, and so with a stream of their own."""
OURS = ("reactivex>=6.1,<7", "msgspec>=0.22,<1")
"""What the rules need besides the repository, in the environment of a peer."""
INSIDE = "The task inside."
WORDS = say("one two three four ", chunk=4)
RULES: dict[str, Callable[[], Callable[[Received], AnswerLike]]] = {
    "tools": lambda: called,
    "cut": lambda: served(say("one two ", chunk=4) + cut()),
    "again": lambda: after(say("one two ", chunk=4) + fail("Overloaded", "overloaded"), WORDS),
    "failed": lambda: served(say("one two ", chunk=4) + fail("This is refused.", "invalid_request")),
    "nested": lambda: called,
    "watched": lambda: served(WHOLE),
}
"""What the server answers in the cases of `rules.py`."""


def rules(python: Path, name: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """How many of the rules the peer's own stream keeps, and what was found of each."""
    rows: dict[str, tuple[str, str]] = {}
    for case, answers in RULES.items():
        with tempfile.TemporaryDirectory(prefix="compare-") as folder, ReplayServer(answers()) as server:
            env = variables(server, Path(folder)) | {"PYTHONPATH": str(ROOT)}
            command = [python, "-W", "ignore", HERE / "rules.py", name, case]
            done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
        reported = [line for line in done.stdout.splitlines() if line.startswith("[")]
        if not reported:
            sys.exit(f"rules.py {name} {case} reported nothing:\n{done.stdout}{done.stderr}")
        rows |= {rule: (outcome, reason) for rule, outcome, reason in json.loads(reported[-1])}
    return sum(outcome == "kept" for outcome, _ in rows.values()), rows


def try_row(python: Path, name: str, row: Row) -> Result:
    """Run a program once, and once more where its process was killed."""
    with tempfile.TemporaryDirectory(prefix="compare-") as folder, ReplayServer(row.answers()) as server:
        result = run_program(python, name, row.case, server, Path(folder))
        if row.case == "kill" and not result.outcome:  # it was killed, as it should be
            result = run_program(python, name, "again", server, Path(folder))
        return result


def cell(python: Path, name: str, row: Row) -> str:
    """Run what belongs to one cell of the table. Of several cancels it shows the slowest."""
    tries = CANCELS if row.case == "cancel" else 1
    results = [try_row(python, name, row) for _ in range(tries)]
    slowest = max(results, key=lambda result: float("inf") if result.closed is None else result.closed)
    if slowest.outcome.get("missing"):
        return "—"
    open_ones = sum(result.closed is None for result in results)
    often = f", {open_ones} times of {tries}" if tries > 1 and open_ones else ""
    return row.show(slowest) + often


def environment(folder: Path, name: str, peer: Peer, *more: str) -> Path:
    """The Python of an environment with the newest versions of a peer, and with more packages."""
    if not peer.installs:
        return Path(sys.executable)
    place = folder / name
    python = place / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--upgrade", *peer.installs, *more], check=True, stderr=subprocess.DEVNULL)
    return python


def versions(python: Path, peer: Peer) -> str:
    """The versions of the packages, as that environment has them."""
    code = "import sys; from importlib.metadata import version; print(*map(version, sys.argv[1:]))"
    done = subprocess.run([python, "-c", code, *peer.shown], check=True, capture_output=True, text=True)
    return ", ".join(f"{package} {version}" for package, version in zip(peer.shown, done.stdout.split(), strict=True))


@contextlib.contextmanager
def given_or_temporary(folder: Path | None) -> Generator[Path]:
    """The folder of the environments."""
    if folder is not None:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="compare-") as made:
        yield Path(made)


def write(table: str) -> None:
    """Put the table between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, mark, rest = text.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not mark or not end:
        sys.exit(f"{PAGE} lacks {BEGIN} or {END}: add them where the table is to stand")
    PAGE.write_text(f"{before}{mark}\n{table}\n{end}{behind}", encoding="utf-8")


def report_rules(names: Sequence[str], given: Path | None) -> None:
    """Print for each peer how many of the rules its own stream keeps, and the reasons of the others."""
    with given_or_temporary(given) as folder:
        for name in names:
            python = environment(folder, name, PEERS[name], *OURS)
            kept, rows = rules(python, name)
            print(f"{versions(python, PEERS[name])}: {kept} of {len(rows)}")
            for rule, (outcome, reason) in rows.items():
                if outcome != "kept":
                    print(f"  {rule}: {outcome}: {reason}")


def main() -> None:
    """Make the environments, run the programs, print the table."""
    parser = argparse.ArgumentParser(description="Compare rxworker with its peers.")
    parser.add_argument("peers", nargs="*", default=list(PEERS), help=f"of {', '.join(PEERS)}")
    parser.add_argument("--folder", type=Path, help="where the environments are kept")
    parser.add_argument("--rules", action="store_true", help="report which rules of a stream their own streams keep")
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    arguments = parser.parse_args()
    unknown = set(arguments.peers) - set(PEERS)
    if unknown or (arguments.write and set(arguments.peers) != set(PEERS)):
        parser.error(f"the peers are {', '.join(PEERS)}, and --write needs all of them")
    names = [name for name in PEERS if name in arguments.peers]
    if arguments.rules:
        report_rules([name for name in names if name in RULED], arguments.folder)
        return
    cells: dict[str, list[str]] = {}
    shown: list[str] = []
    with given_or_temporary(arguments.folder) as folder:
        for name in names:
            print(f"{name} ...", file=sys.stderr)
            python = environment(folder, name, PEERS[name])
            shown.append(versions(python, PEERS[name]))
            cells[name] = [cell(python, name, row) for row in ROWS]
    lines = ["| | " + " | ".join(PEERS[name].title for name in names) + " |"]
    lines.append("|---" * (len(names) + 1) + "|")
    for number, row in enumerate(ROWS):
        lines.append(f"| {row.title} | " + " | ".join(cells[name][number] for name in names) + " |")
    today = datetime.datetime.now(datetime.UTC).date()
    made = f"`python examples/compare --write` on {today}, Python {platform.python_version()}: {'; '.join(shown)}."
    table = "\n".join([*lines, "", made])
    print(table)
    if arguments.write:
        write(table)


if __name__ == "__main__":
    main()
