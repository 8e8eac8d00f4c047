"""What the requests of a conversation could have read from the provider's cache, what they did, and why they did not.

A cache holds the beginnings of prompts. A request can read all of the one before it as long as it begins with the same
bytes, in the order in which providers read a request: model, tools, system text, options, messages. `step_cache` folds
requests and the events of their responses; cache marks, limits and settings of the sampling do not belong to a prompt.
See https://platform.claude.com/docs/en/build-with-claude/prompt-caching#what-invalidates-the-cache
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from rxworker.events import Event, Opaque
from rxworker.messages import Json, JsonObject
from rxworker.messages.lenient_json import as_array, as_object, json_text, word
from rxworker.messages.usage import Usage
from rxworker.providers.base import HttpRequest, Provider, Request, hidden_url

PromptPart: TypeAlias = Literal["model", "tools", "system", "option", "message"]
"""A part of a request that a prompt begins with."""
Entries: TypeAlias = dict[PromptPart, list[tuple[str, Json]]]
"""The entries of a prompt, each with its place in the body, by their parts."""

ORDER: tuple[PromptPart, ...] = ("model", "tools", "system", "option", "message")
"""The order in which the parts of a request are read."""
SHOWN = 40
SHOWN_FIELDS = ("requests", "could_read", "read", "missed", "change", "diagnostics")
SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
MESSAGES = ("messages", "input", "contents")
CONTENT = ("content", "parts")
MARKS = ("cache_control", "prompt_cache_breakpoint")
CONFIGS = ("generationConfig", "generation_config", "inferenceConfig", "options", "toolConfig")
_HARMLESS = (
    "background cache_control candidateCount container diagnostics frequency_penalty include keep_alive logprobs "
    "max_completion_tokens max_output_tokens max_tokens maxOutputTokens maxTokens metadata n num_predict "
    "presence_penalty prompt_cache_options prompt_cache_retention safety_identifier seed service_tier stop "
    "stop_sequences stopSequences store stream stream_options temperature top_k top_logprobs top_p topK topP user"
)
HARMLESS = frozenset(_HARMLESS.split())
"""Members of a body that may change and leave the prompt as it was."""
NUMBER = re.compile(r"\d+")
TIME = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\b\d{1,2}:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AaPp][Mm])?"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
    r"|\b1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?\b"
    r"|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)(?:day)?\b"
    r"|\b(?:\d{1,2}\.? )?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*\.?(?: \d{1,2}(?:st|nd|rd|th)?)?(?:,?"
    r" \d{4})?\b"
)


class CacheChange(Struct, frozen=True):
    """The first difference of a request from the request before it, which ends what can be read from the cache.

    Attributes:
        part: The part of the request that is different.
        path: Its place in the body, for example ``messages[2].content[0].text``.
        at: The first byte that differs, counted in the text at this place, or in the JSON of what is not text.
        before: The text around this byte in the request before.
        now: The same in this request.
        is_time: Whether a date or a time has changed.
        tool: The name of the tool that was changed, added or removed; for the part ``tools``.
        hook: The name of the hook that made the change, where `rxworker.transport.CacheMeter` has found it.
    """

    part: PromptPart
    path: str
    at: int
    before: str
    now: str
    is_time: bool = False
    tool: str = ""
    hook: str = ""

    def __str__(self) -> str:
        what = "a time stamp in " if self.is_time else ""
        tool = f", tool {self.tool}" if self.tool else ""
        hook = f", hook {self.hook}" if self.hook else ""
        place = f"{self.path} ({self.part}{tool}{hook})"
        return f"{what}{place} differs from byte {self.at}: {self.before!r} became {self.now!r}"


class CacheUse(Struct, frozen=True):
    """What the requests of a conversation have read from the provider's cache; the state of `step_cache`.

    Attributes:
        requests: The number of requests.
        could_read: The tokens that they could have read: of each, the input of the request before.
        read: The tokens that they have read.
        missed: What the last request could have read and has not. Without a ``change``, the entry has expired, the
            prompt is too short, or no mark is near.
        change: What the last request changed of the one before; ``None``: nothing, it only added to it.
        diagnostics: The provider's own report on the cache of the last request, if it sent one.
        input_tokens: The input of the last request.
    """

    requests: int = 0
    could_read: int = 0
    read: int = 0
    missed: int = 0
    change: CacheChange | None = None
    diagnostics: Json = None
    input_tokens: int = 0
    _prompt: Entries | None = None
    _before: tuple[int, int, int] = (0, 0, 0)  # the numbers when the last request began

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in SHOWN_FIELDS]
        return f"CacheUse({', '.join(shown)})"


def step_cache(use: CacheUse, item: HttpRequest | Event) -> CacheUse:
    """The use after one more request, or one more event of its response. Pure.

    Args:
        use: The use so far; `CacheUse()` at the beginning of a conversation.
        item: A request, or an event of the response to the last one.

    >>> def sent(system: str) -> HttpRequest:
    ...     return HttpRequest("https://a", {}, msgspec.json.encode({"system": system, "messages": []}))
    >>> use = CacheUse()
    >>> for item in (sent("It is 12:01."), Usage(input_tokens=2000), sent("It is 12:02."), Usage(input_tokens=2100)):
    ...     use = step_cache(use, item)
    >>> use.could_read, use.read, use.missed
    (2000, 0, 2000)
    >>> print(use.change)
    a time stamp in system[0].text (system) differs from byte 10: 'It is 12:01.' became 'It is 12:02.'
    """
    if isinstance(item, HttpRequest):
        prompt = _entries(item)
        return replace(
            use,
            requests=use.requests + 1,
            missed=0,
            change=None if use._prompt is None else _change(use._prompt, prompt),
            diagnostics=None,
            _prompt=prompt,
            _before=(use.input_tokens, use.could_read, use.read),
        )
    if isinstance(item, Usage):
        whole, could, read = use._before
        now, found = item.input_tokens or 0, item.cache_read_tokens or 0
        within = max(min(whole, now), found)
        return replace(use, could_read=could + within, read=read + found, missed=within - found, input_tokens=now)
    if isinstance(item, Opaque) and isinstance(item.raw, dict):
        reports = [item.raw[name] for name in ("diagnostics", "prompt_cache_diagnostics") if name in item.raw]
        return replace(use, diagnostics=reports[0]) if reports else use
    return use


def changed_by(change: CacheChange, provider: Provider, before: Request, now: Request) -> str:
    """The name of the hook that has made a change; empty if no hook has.

    The hooks of both requests are followed back from the end: the one is named before which the two did not differ in
    this way.

    Args:
        change: The first difference of the two.
        provider: Makes their bodies.
        before: The request before, with its `Request.edits`.
        now: This request, with its own.
    """

    def prompt(request: Request) -> Entries:
        return _entries(provider.request(request.conversation, request.tools, request.options))

    if change.part in ("model", "option"):
        return ""  # which hooks cannot change
    for hook, one, other in reversed([*_steps(before, now)]):
        found = _change(prompt(one), prompt(other))
        if found is None or not _is_same(found, change):
            return hook
    return ""


def _steps(before: Request, now: Request) -> Iterator[tuple[str, Request, Request]]:
    """The hooks that have changed one of two requests, in order, with both as they were before it."""
    first, second = [*before.edits], [*now.edits]
    while first or second:
        one, other = (edits[0][1] if edits else end for edits, end in ((first, before), (second, now)))
        name = first[0][0] if first else ""
        is_later = any(name == each for each, _ in second)
        if not first or (is_later and second[0][0] != name):
            yield second.pop(0)[0], one, other
            continue
        if is_later:
            second.pop(0)
        yield first.pop(0)[0], one, other


def _is_same(one: CacheChange, other: CacheChange) -> bool:
    """Whether two differences are the same, though hooks may have put something before it or after it."""
    if one.part != other.part or NUMBER.sub("", one.path) != NUMBER.sub("", other.path):
        return False
    return all(a.startswith(b) or b.startswith(a) for a, b in zip(_tails(one), _tails(other), strict=True))


def _tails(change: CacheChange) -> tuple[str, str]:
    """The texts from the first byte that differs on."""
    same = _same(change.before, change.now)
    return change.before[same:], change.now[same:]


def _entries(request: HttpRequest) -> Entries:
    """The prompt of a request, of any protocol."""
    body: JsonObject = msgspec.json.decode(request.body)
    tools = body.pop("tools", None) or as_object(body.get("toolConfig")).pop("tools", None)  # the second is Bedrock's
    found: Entries = {part: [] for part in ORDER}
    found["model"] = [("url", hidden_url(request.url)), ("model", body.pop("model", None))]
    found["tools"] = [*_tools(tools)]
    for name in SYSTEM:
        found["system"] += _contents(name, body.pop(name, None))
    for name in MESSAGES:
        part: PromptPart = "system"
        for at, message in enumerate(_unmarked(body.pop(name, None))):
            if as_object(message).get("role") not in ("system", "developer"):
                part = "message"
            found[part] += _message(f"{name}[{at}]", message)
    for members in (body, body.get("additionalModelRequestFields")):
        _unbind(as_object(members))
    kept = _kept(body)
    found["option"] = [(name, kept[name]) for name in sorted(kept)]
    return found


def _unbind(members: JsonObject) -> None:
    """Take out what a request to Claude states about thinking that is bound, which it does from the second request on.

    The prompt stays.
    """
    thinking = members.get("thinking")
    if as_object(thinking).pop("block_binding", None):
        if thinking == {"type": "adaptive"}:  # as if there was no such member
            del members["thinking"]
        betas = as_array(members.pop("anthropic_beta", None))
        if others := [name for name in betas if not str(name).startswith("thinking-binding")]:
            members["anthropic_beta"] = others


def _tools(tools: Json) -> Iterator[tuple[str, Json]]:
    for at, tool in enumerate(_unmarked(tools)):
        declared = as_object(tool).get("functionDeclarations")
        if not isinstance(declared, list):
            yield f"tools[{at}]", tool
            continue
        for n, one in enumerate(declared):  # Gemini
            yield f"tools[{at}].functionDeclarations[{n}]", one


def _tool_name(tool: Json) -> str:
    tool = as_object(tool)
    inner = as_object(tool.get("function") or tool.get("toolSpec")) or tool
    return word(inner.get("name")) or word(inner.get("type"))


def _message(path: str, message: Json) -> Iterator[tuple[str, Json]]:
    if not isinstance(message, dict):
        yield path, message
        return
    yield path, {key: value for key, value in message.items() if key not in CONTENT}
    for name in CONTENT:
        yield from _contents(f"{path}.{name}", message.get(name))


def _contents(path: str, content: Json) -> Iterator[tuple[str, Json]]:
    """The blocks of a content. A text is one block, since a mark turns it into one."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    elif isinstance(content, dict):
        content = content.get("parts")
    for at, block in enumerate(_unmarked(content)):
        yield f"{path}[{at}]", block


def _unmarked(blocks: Json) -> Iterator[Json]:
    """Tools or blocks without cache marks, which may move."""
    for block in [blocks] if isinstance(blocks, str) else as_array(blocks):
        if not isinstance(block, dict):
            yield block
        elif "cachePoint" not in block:
            yield {key: value for key, value in block.items() if key not in MARKS}


def _kept(members: JsonObject) -> JsonObject:
    """The settings that are part of a prompt."""
    kept = {name: value for name, value in members.items() if name not in HARMLESS}
    kept |= {name: _kept(within) for name in CONFIGS if isinstance(within := kept.get(name), dict)}
    return {name: value for name, value in kept.items() if value != {}}


def _change(before: Entries, now: Entries) -> CacheChange | None:
    for part, entries in before.items():
        others = now[part]
        if part == "option":
            by_name = dict(entries), dict(others)
            names = sorted({*by_name[0], *by_name[1]})
            entries, others = ([(name, one.get(name)) for name in names] for one in by_name)
        elif part == "message":
            others = others[: len(entries)]  # what follows changes nothing
        for (path, one), (other_path, other) in zip_longest(entries, others, fillvalue=("", None)):
            if _differ(one, other):
                found = _difference(part, other_path or path, one, other)
                return replace(found, tool=_tool_name(other or one)) if part == "tools" else found
    return None


def _differ(one: Json, other: Json) -> bool:
    return msgspec.json.encode(one) != msgspec.json.encode(other)


def _difference(part: PromptPart, path: str, before: Json, now: Json) -> CacheChange:
    """The first difference of two values, as deep as they have the same shape."""
    if isinstance(before, dict) and isinstance(now, dict):
        for (name, one), (key, other) in zip(before.items(), now.items(), strict=False):
            if name != key:
                break
            if _differ(one, other):
                return _difference(part, f"{path}.{name}", one, other)
    if isinstance(before, list) and isinstance(now, list):
        for at, (one, other) in enumerate(zip(before, now, strict=False)):
            if _differ(one, other):
                return _difference(part, f"{path}[{at}]", one, other)
    old, new = json_text(before), json_text(now)
    at = _same(old, new)
    begin = max(at - SHOWN // 2, 0)
    return CacheChange(
        part,
        path,
        len(old[:at].encode("utf-8", "replace")),
        old[begin : begin + SHOWN],
        new[begin : begin + SHOWN],
        is_time=_in_time(old, at) and _in_time(new, at),
    )


def _same(old: str, new: str) -> int:
    """How many characters two texts begin with together."""
    return next((at for at, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))


def _in_time(text: str, at: int) -> bool:
    near = max(at - SHOWN, 0)
    return any(m.start() <= at <= m.end() for m in TIME.finditer(text, near, at + SHOWN))
