"""What it costs to decode a stream, in rxworker and in the official clients.

The same bytes, in the same process, in turn.

    python tests/bench/sdk_decode.py              seconds
    python tests/bench/sdk_decode.py --quick      fewer, and rough

No network is used: each client, ours too, is given a transport that answers with the bytes, a frame a piece. The clock
starts with the first byte and stops when the client has handed out its last event, so that the request is not counted.
Ours hands out normal events, with blocks that start and stop; theirs the provider's own types. A ratio is the median
over the rounds, so that the machine drops out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module, metadata
from importlib.util import find_spec
from typing import Any

import msgspec
from msgspec import Struct
from reactivex import Observable, abc
from reactivex.disposable import Disposable

from rxworker.providers import PROVIDERS, HttpRequest
from rxworker.testing import (
    Reply,
    anthropic_frames,
    call,
    gemini_frames,
    ollama_frames,
    openai_chat_frames,
    openai_responses_frames,
    say,
    think,
)
from rxworker.transport import Client

PACKAGES = ("rxworker", "msgspec", "anthropic", "openai", "google-genai", "ollama", "pydantic")
ASKED = [{"role": "user", "content": "hi"}]
MODEL = "a-model"
WORDS = "The quick brown fox jumps over the lazy dog, 世界. "

Ask = Callable[[Any], Iterable[Any]]


class Contest(Struct, frozen=True):
    """A protocol, and who else decodes it.

    Attributes:
        name: Of our provider.
        package: The official client's module.
        http: The module whose transport it uses.
        render: From a reply to its frames.
        ask: From an HTTP client to the official client's events.
        content_type: Under which the frames are sent.
    """

    name: str
    package: str
    http: str
    render: Callable[..., list[bytes]]
    ask: Ask
    content_type: str = "text/event-stream"


class Row(Struct, frozen=True):
    """What a contest came to.

    Attributes:
        name: The protocol.
        frames: How many frames were decoded in a round.
        us: What a frame costs us, in microseconds; the median of the rounds.
        sdk_us: The same in the official client.
        ratio: How many times as much that is, the median of the rounds' ratios.
        least: The smallest of these.
        most: The largest.
    """

    name: str
    frames: int
    us: float
    sdk_us: float
    ratio: float
    least: float
    most: float


def ask_anthropic(http: Any) -> Iterable[Any]:
    """The Messages stream."""
    client = import_module("anthropic").Anthropic(api_key="none", http_client=http, max_retries=0)
    return client.messages.create(model=MODEL, max_tokens=9, messages=ASKED, stream=True)


def ask_chat(http: Any) -> Iterable[Any]:
    """The Chat Completions stream."""
    client = import_module("openai").OpenAI(api_key="none", http_client=http, max_retries=0)
    return client.chat.completions.create(model=MODEL, messages=ASKED, stream=True)


def ask_responses(http: Any) -> Iterable[Any]:
    """The Responses stream."""
    client = import_module("openai").OpenAI(api_key="none", http_client=http, max_retries=0)
    return client.responses.create(model=MODEL, input="hi", stream=True)


def ask_gemini(http: Any) -> Iterable[Any]:
    """The generateContent stream."""
    options = import_module("google.genai.types").HttpOptions(httpx_client=http)
    client = import_module("google.genai").Client(api_key="none", http_options=options)
    return client.models.generate_content_stream(model=MODEL, contents="hi")


def ask_ollama(http: Any) -> Iterable[Any]:
    """The chat stream of Ollama; its client makes the HTTP client itself, and takes only the transport."""
    client = import_module("ollama").Client(host="http://127.0.0.1", transport=http._transport)
    return client.chat(model=MODEL, messages=ASKED, stream=True)


CONTESTS = (
    Contest("anthropic", "anthropic", "httpx2", anthropic_frames, ask_anthropic),
    Contest("openai_chat", "openai", "httpx2", openai_chat_frames, ask_chat),
    Contest("openai_responses", "openai", "httpx2", openai_responses_frames, ask_responses),
    Contest("gemini", "google.genai", "httpx2", gemini_frames, ask_gemini),
    Contest("ollama", "ollama", "httpx", ollama_frames, ask_ollama, "application/x-ndjson"),
)


def missing(contest: Contest) -> list[str]:
    """The modules that a contest needs and that are not installed."""
    return [name for name in (contest.package, contest.http) if not _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # what is above it is missing
        return False


def answer_of(deltas: int) -> Reply:
    """An answer with about so many pieces: some thoughts, much text, and a call."""
    text = WORDS * (deltas * 4 // len(WORDS) + 1)
    return think(text[: deltas * 4 // 5]) + say(text[: deltas * 16 // 5]) + call("note", text=text[:40])


def ours(contest: Contest, frames: Sequence[bytes]) -> tuple[float, int]:
    """How long our client takes from the first byte on, and how many events it makes."""
    begin, count = 0.0, 0

    def push(observer: abc.ObserverBase[bytes], _: abc.SchedulerBase | None) -> abc.DisposableBase:
        nonlocal begin
        begin = time.perf_counter()
        for frame in frames:
            observer.on_next(frame)
        observer.on_completed()
        return Disposable()

    def tally(_: object) -> None:
        nonlocal count
        count += 1

    class Recorded:
        def send(self, request: HttpRequest) -> Observable[bytes]:
            del request
            return Observable(push)

    provider: Any = PROVIDERS[contest.name]
    client = Client(provider(MODEL, api_key="none"), transport=Recorded())
    client.stream("hi").subscribe(tally)
    return time.perf_counter() - begin, count


def theirs(contest: Contest, frames: Sequence[bytes]) -> tuple[float, int]:
    """How long the official client takes from the first byte on, and how many events it makes."""
    http: Any = import_module(contest.http)
    begin = 0.0

    def body() -> Iterator[bytes]:
        nonlocal begin
        begin = time.perf_counter()
        yield from frames

    def answer(_: Any) -> Any:
        return http.Response(200, headers={"content-type": contest.content_type}, content=body())

    with http.Client(transport=http.MockTransport(answer)) as client:
        count = sum(1 for _ in contest.ask(client))
        return time.perf_counter() - begin, count


def measure(contest: Contest, deltas: int, rounds: int) -> Row:
    """Both in turn, after one round that is not counted.

    Raises:
        RuntimeError: One of them made far fewer events than there are frames.
    """
    frames = contest.render(answer_of(deltas))
    times: list[tuple[float, float]] = []
    for _ in range(rounds + 1):
        (us, events), (sdk, others) = ours(contest, frames), theirs(contest, frames)
        if min(events, others) < deltas // 2:
            raise RuntimeError(f"{contest.name}: {events} and {others} events of {len(frames)}")
        times.append((us, sdk))
    ratios = [sdk / us for us, sdk in times[1:]]
    each = 1e6 / len(frames)
    return Row(
        name=contest.name,
        frames=len(frames),
        us=round(statistics.median(us for us, _ in times[1:]) * each, 2),
        sdk_us=round(statistics.median(sdk for _, sdk in times[1:]) * each, 2),
        ratio=round(statistics.median(ratios), 1),
        least=round(min(ratios), 1),
        most=round(max(ratios), 1),
    )


def main() -> int:
    """Measure and print; 2 where no official client is installed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="fewer pieces and rounds")
    parser.add_argument("--deltas", type=int, help="pieces of an answer (5000)")
    parser.add_argument("--rounds", type=int, help="how often each is run (7)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    deltas: int = args.deltas or (1000 if args.quick else 5000)
    rounds: int = args.rounds or (3 if args.quick else 7)
    left_out = {contest.name: missing(contest) for contest in CONTESTS if missing(contest)}
    rows = [measure(c, deltas, rounds) for c in CONTESTS if c.name not in left_out]
    if args.json:
        print(msgspec.json.encode(rows).decode())
        return 0
    for name, modules in left_out.items():
        print(f"{name} is left out: {', '.join(modules)} is not installed", file=sys.stderr)
    if not rows:
        return 2
    print("\n".join([*_table(rows), "", _versions()]))
    return 0


def _table(rows: Sequence[Row]) -> list[str]:
    lines = [
        "| protocol | frames | rxworker µs | official client µs | times as much | from - to |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        lines.append(
            f"| {row.name} | {row.frames} | {row.us:.2f} | {row.sdk_us:.2f} | {row.ratio:.1f} "
            f"| {row.least:.1f} - {row.most:.1f} |"
        )
    return lines


def _versions() -> str:
    found = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
