"""What real answers carry for the next request is in the next request: recordings as answers, over HTTP.

What must come back is put together here from the raw frames, independently of the decoders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rxworker import Worker
from rxworker.providers import Anthropic, OpenAIChat
from rxworker.testing import ReplayServer, lint
from rxworker.testing.server import AnswerLike

RECORDINGS = Path(__file__).parents[3] / "shared" / "recordings"


def whole(provider: str) -> list[Any]:
    """The recordings that end well."""
    rows = [
        pytest.param(path, id=path.stem)
        for path in sorted((RECORDINGS / provider).glob("*.sse"))
        if (expected := expected_of(path))["terminated"] and not expected["error"]
    ]
    absent = pytest.mark.skip(reason=f"no recordings: {RECORDINGS} is absent")
    return rows or [pytest.param(RECORDINGS, marks=absent)]


def expected_of(path: Path) -> dict[str, Any]:
    return json.loads(path.with_suffix(".expected.json").read_text())


def frames_of(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_bytes().splitlines():
        if line.startswith(b"data:") and line[5:].strip() != b"[DONE]":
            yield json.loads(line[5:])


async def sent_back(path: Path) -> list[dict[str, Any]]:
    """The messages of the request that follows the recorded answer."""
    # What the model may ask for is not at hand; it is told so, and the next answer is plain.
    answers: list[AnswerLike] = [path, "done", "done"]
    async with ReplayServer(answers) as server:
        url = server.base_url
        worker = Worker(
            Anthropic("a-model", base_url=url)
            if path.parent.name == "anthropic"
            else OpenAIChat("a-model", base_url=url)
        )
        run = worker.run("hi")
        await run
        assert lint([record async for record in run]) == []
        if len(server.requests) == 1:
            await worker.run("and now?")
        body: Any = server.requests[1].body
        return body["messages"]


def anthropic_content(path: Path) -> list[dict[str, Any]]:
    """The blocks of a recorded message, as the next request must repeat them."""
    blocks: dict[int, dict[str, Any]] = {}
    texts: dict[int, str] = {}
    for frame in frames_of(path):
        match frame["type"]:
            case "message_start":  # a second one takes back what came before it
                blocks, texts = {}, {}
            case "content_block_start":
                blocks[frame["index"]] = dict(frame["content_block"])
            case "content_block_delta":
                take_delta(blocks, texts, frame["index"], frame["delta"])
            case _:
                pass
    for index, text in texts.items():
        try:
            blocks[index]["input"] = json.loads(text or "{}")
        except json.JSONDecodeError:  # cut by the length limit: no call
            del blocks[index]
    return [clean(block) for _, block in sorted(blocks.items()) if not is_blank(block)]


def is_blank(block: dict[str, Any]) -> bool:
    """Text without a letter, which Anthropic sends but refuses to take back."""
    return block["type"] == "text" and not block["text"].strip()


def take_delta(blocks: dict[int, dict[str, Any]], texts: dict[int, str], index: int, delta: dict[str, Any]) -> None:
    block = blocks[index]
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "signature_delta":
            block["signature"] = delta["signature"]
        case "input_json_delta":
            texts[index] = texts.get(index, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or []), delta["citation"]]
        case "compaction_delta":
            block.update({k: v for k, v in delta.items() if k != "type"})
        case other:
            raise AssertionError(other)


def clean(block: dict[str, Any]) -> dict[str, Any]:
    """Fields that say nothing need not come back."""
    return {name: value for name, value in block.items() if value not in (None, [])}


@pytest.mark.parametrize("path", whole("anthropic"))
async def test_an_answer_of_anthropic_is_sent_back_block_by_block(path: Path) -> None:
    messages = await sent_back(path)
    said = messages[1]
    assert said["role"] == "assistant"
    content = anthropic_content(path)
    assert [clean(block) for block in said["content"]] == content
    calls = [block["id"] for block in content if block["type"] == "tool_use"]
    if calls:
        results = messages[2]["content"]
        assert [r["tool_use_id"] for r in results if r["type"] == "tool_result"] == calls


@pytest.mark.parametrize("path", whole("openai_chat"))
async def test_an_answer_of_chat_is_sent_back_with_its_calls(path: Path) -> None:
    messages = await sent_back(path)
    expected = expected_of(path)
    said = messages[1]
    if not expected["text"] and not expected["tool_calls"] and not expected.get("refusal"):
        assert said["role"] == "user"  # an answer without content is not a message
        return
    assert said["role"] == "assistant"
    assert (said["content"] or "") == expected["text"]
    sent = [call["function"] for call in said.get("tool_calls", ())]
    calls = expected["tool_calls"]
    assert [(c["name"], json.loads(c["arguments"])) for c in sent] == [(c["name"], c["input"]) for c in calls]
    ids = [call["id"] for call in said.get("tool_calls", ())]
    assert all(made == given["id"] for made, given in zip(ids, calls, strict=True) if given["id"])
    assert len(set(ids)) == len(ids)
    assert [m["tool_call_id"] for m in messages[2 : 2 + len(ids)]] == ids


def need(name: str) -> Path:
    path = RECORDINGS / "openai_chat" / f"{name}.sse"
    if not path.exists():
        pytest.skip(f"no recordings: {RECORDINGS} is absent")
    return path


async def test_deepseek_gets_its_reasoning_back() -> None:
    path = need("deepseek-reasoning-tool")
    said = (await sent_back(path))[1]
    assert said["reasoning_content"] == expected_of(path)["thinking"]


async def test_openrouter_gets_its_reasoning_details_back() -> None:
    path = need("openrouter-comments-reasoning-tool")
    said = (await sent_back(path))[1]
    deltas = [c["delta"] for frame in frames_of(path) for c in frame.get("choices", ())]
    details = [d for delta in deltas for d in delta.get("reasoning_details") or ()]
    assert details
    for field in ("text", "signature", "data"):
        sent = "".join(d.get(field) or "" for d in said["reasoning_details"])
        assert sent == "".join(d.get(field) or "" for d in details)


async def test_gemini_behind_chat_gets_its_signature_back() -> None:
    path = need("gemini-compat-tool-no-index")
    said = (await sent_back(path))[1]
    deltas = [c["delta"] for frame in frames_of(path) for c in frame.get("choices", ())]
    given = [
        call["extra_content"] for delta in deltas for call in delta.get("tool_calls") or () if "extra_content" in call
    ]
    assert given
    assert [c["extra_content"] for c in said["tool_calls"] if "extra_content" in c] == given
