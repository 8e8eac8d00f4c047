"""litellm: a custom guardrail of its proxy, which holds each chunk until it is checked; it serves the consumer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

GUARD = """
import asyncio

from fastapi import HTTPException
from litellm.integrations.custom_guardrail import CustomGuardrail


class Guard(CustomGuardrail):
    streaming_sampling_rate = 1
    streaming_buffer_until_moderated = True
    streaming_buffer_release_on_scan = True

    async def apply_guardrail(self, inputs, request_data, input_type, logging_obj=None):
        await asyncio.sleep(0.1)
        calls = [str(call) for call in inputs.get("tool_calls") or []]
        if any("hunter2" in text for text in [*inputs.get("texts", []), *calls]):
            raise HTTPException(status_code=400, detail="refused")
        return inputs
"""
CONFIG = """
model_list:
  - model_name: m
    litellm_params: {{model: openai/m, api_base: "{url}/v1", api_key: none}}
guardrails:
  - guardrail_name: guard
    litellm_params:
      guardrail: guard_of_litellm.Guard
      mode: post_call
      default_on: true
"""
KEY = "sk-" + secrets.token_hex(24)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}


async def read(url: str) -> None:
    """Read the answer of the proxy, when that serves."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Go."}], "tools": [TOOL]}
    seen, times, text = [], [], ""
    async with httpx.AsyncClient(trust_env=False, timeout=60, headers={"Authorization": f"Bearer {KEY}"}) as client:
        for _ in range(400):
            with contextlib.suppress(httpx.TransportError):
                if (await client.get(f"{url}/health/liveliness")).status_code == 200:
                    break
            await asyncio.sleep(0.1)
        begun = time.perf_counter()
        async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
            async for line in response.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                data = json.loads(line[6:])
                seen.append(line)
                for choice in data.get("choices", []):
                    delta = choice.get("delta", {})
                    piece = (delta.get("content") or "") + "".join(
                        call["function"].get("arguments") or "" for call in delta.get("tool_calls") or []
                    )
                    if piece:
                        text += piece
                        times.append(time.perf_counter() - begun)
    print(json.dumps({"events": "".join(seen) + text, "first": (times or [0])[0], "last": (times or [0])[-1]}))


def main() -> None:
    folder = Path(os.environ["GUARD_FOLDER"])
    (folder / "guard_of_litellm.py").write_text(GUARD, encoding="utf-8")
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(url=os.environ["GUARD_URL"]), encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
    command = [Path(sys.executable).with_name("litellm"), "--config", config, "--port", str(port)]
    with (
        (folder / "litellm.log").open("w") as log,
        subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, "LITELLM_MASTER_KEY": KEY}
        ) as it,
    ):
        try:
            asyncio.run(read(f"http://127.0.0.1:{port}"))
        finally:
            it.terminate()


main()
