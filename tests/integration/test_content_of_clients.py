"""The content that clients send, through every door that takes files: one check for all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from rxworker import Worker
from rxworker.testing import ScriptedModel
from rxworker.ui.web import WebServer

REFUSED = [
    "file:///etc/passwd",
    "ftp://a.b/c.png",
    "gopher://a.b/",
    "javascript:alert(1)",
    "http://169.254.169.254/latest/meta-data",
    "http://2852039166/latest",
    "http://0xa9fea9fe/",
    "http://0251.0376.0251.0376/",
    "http://169.254.43518/",
    "http://\uff11\uff16\uff19.254.169.254/",
    "http://user@169.254.169.254/",
    "http://[::ffff:169.254.169.254]/",
    "http://[fd00:ec2::254]/",
    "http://[::1]/",
    "http://127.0.0.1:8080/",
    "http://10.0.0.7/a.png",
    "http://localhost/a.png",
    "http://a.localhost./a.png",
    "http://metadata.google.internal/",
    "http://100.100.100.200/",
    "http://169.254.169.254\\@example.org/",
    "http://169\u3002254\uff61169\u3002254/",
    "http://local\u00adhost/",
    "http://local\u200bhost/",
    "http:// 127.0.0.1/",
    "http://127.0.0.1\r\n.example.org/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::a9fe:a9fe]/",
    "http://[::127.0.0.1]/",
    "http://[ff0e::1]/",
    "http://224.0.0.1/",
    "http://intranet/a.png",
    "http:///a.png",
    "http://[broken/",
]
TAKEN = [
    "https://example.org/a.png",
    "https://m\u00fcnchen.example.org./a.png",
    "http://93.184.216.34/a.png",
    "http://[2606:2800:220:1:248:1893:25c8:1946]/a.png",
    "data:image/png;base64,AAAA",
]

Body = Callable[[str], tuple[str, Any]]


def api(url: str) -> tuple[str, Any]:
    if url.startswith("data:"):
        image = {"type": "image", "data": url.partition(",")[2]}
    else:
        image = {"type": "image", "url": url}
    return "api/runs", {"input": [{"type": "text", "text": "look"}, image]}


def ag_ui(url: str) -> tuple[str, Any]:
    source = {"type": "url", "value": url, "mimeType": "image/png"}
    message = {"id": "1", "role": "user", "content": [{"type": "image", "source": source}]}
    return "ag-ui", {"threadId": "t", "runId": "r", "messages": [message]}


def chat(url: str) -> tuple[str, Any]:
    parts = [{"type": "file", "mediaType": "image/png", "url": url}]
    return "api/chat", {"id": "c", "messages": [{"id": "1", "role": "user", "parts": parts}]}


def completions(url: str) -> tuple[str, Any]:
    content = [{"type": "image_url", "image_url": {"url": url}}]
    body = {"model": "worker", "messages": [{"role": "user", "content": content}]}
    return "v1/chat/completions", body


def responses(url: str) -> tuple[str, Any]:
    content = [{"type": "input_image", "image_url": url}]
    return "v1/responses", {"model": "worker", "input": [{"role": "user", "content": content}]}


async def test_a_file_has_a_public_address_or_its_bytes_in_every_door() -> None:
    doors: list[Body] = [api, ag_ui, chat, completions, responses]
    wrong: list[str] = []
    model = ScriptedModel(lambda request: "seen")
    async with (
        WebServer(lambda: Worker(model), port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        for door in doors:
            for url in (*REFUSED, *TAKEN):
                path, body = door(url)
                before = len(model.requests)
                async with http.post(path, json=body) as answer:
                    told = await answer.text()
                is_taken = answer.status < 300
                if is_taken != (url in TAKEN) or (not is_taken and len(model.requests) != before):
                    wrong.append(f"{door.__name__} {url}: {answer.status} {told[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ({"type": "image", "file_id": "file-of-ada"}, "file_id"),
        ({"type": "document", "file_id": "file-of-ada"}, "file_id"),
        ({"type": "image", "data": "AAAA", "echo": {"cache_control": {}}}, "echo"),
        ({"type": "text", "text": "hi", "echo": {"x": 1}}, "echo"),
        ({"type": "text", "text": "hi", "citations": [{"url": "x"}]}, "citations"),
        ({"type": "image"}, "neither an address nor bytes"),
        ({"type": "document", "data": "AAAA", "media_type": "audio/wav"}, "audio/wav"),
    ],
)
async def test_a_block_has_nothing_that_only_a_provider_gives(block: Any, name: str) -> None:
    """Where a run begins, where a message is sent into it, and where an earlier message is replaced."""
    model = ScriptedModel(lambda request: "seen")
    async with (
        WebServer(lambda: Worker(model), port=0) as server,
        aiohttp.ClientSession(server.url, trust_env=False) as http,
    ):
        async with http.post("api/runs", json={"input": "hi"}) as answer:
            run = (await answer.json())["id"]
        async with http.get(f"api/runs/{run}/events") as events:
            await events.read()
        edits = {"run": run, "message": 0, "text": "hi"}
        for path, body in [
            ("api/runs", {"input": [block]}),
            ("api/runs", {"input": [block], "edits": edits}),
            (f"api/runs/{run}/send", {"message": [block]}),
        ]:
            async with http.post(path, json=body) as answer:
                told = json.loads(await answer.text())
            assert (answer.status, name in told["error"]["message"]) == (400, True), told
    assert len(model.requests) == 1
