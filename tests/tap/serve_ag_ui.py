"""An agent of pydantic-ai, served with AG-UI, whose spans are exported with OTLP: serve_ag_ui OTLP_ADDRESS.

It prints its address, and then a line of JSON for each run: the text of its answer, and its tokens.
"""

import json
import socket
import sys
from typing import Any

import uvicorn
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.agent import InstrumentationSettings
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def answer(messages: list[Any], _: object) -> Any:
    """Call two tools, and then answer."""
    if any(isinstance(each, ModelResponse) for each in messages):
        yield "Done"
        yield "."
        return
    yield {0: DeltaThinkingPart(content="Hm")}
    yield "I "
    yield "look."
    yield {2: DeltaToolCall(name="look", json_args='{"city":', tool_call_id="c1")}
    yield {2: DeltaToolCall(json_args='"K"}', tool_call_id="c1")}
    yield {3: DeltaToolCall(name="fails", json_args="{}", tool_call_id="c2")}


def main() -> None:
    """Serve."""
    spans = TracerProvider(resource=Resource.create({"service.name": "peer"}))
    spans.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{sys.argv[1]}/v1/traces")))
    agent = Agent(FunctionModel(stream_function=answer), name="desk")
    agent.instrument = InstrumentationSettings(tracer_provider=spans)

    @agent.tool_plain
    async def look(city: str) -> str:
        return f"rain in {city}"

    @agent.tool_plain
    def fails() -> str:
        raise ModelRetry("no")

    def report(result: Any) -> None:
        usage = result.usage() if callable(result.usage) else result.usage
        print(json.dumps({"text": result.output, "usage": [usage.input_tokens, usage.output_tokens]}), flush=True)

    async def handle(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent, on_complete=report)

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/", flush=True)
    app = Starlette(routes=[Route("/", handle, methods=["POST"])])
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])


if __name__ == "__main__":
    main()
