"""What tools give, as each service takes it: each service times each odd thing, by the rules that it documents.

`refusing` is a service of our own making: it reads the body of a request and refuses what the real one refuses.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from rxworker import Finished, Worker, tool
from rxworker.errors import LocalProtocolError
from rxworker.log import MemoryLog
from rxworker.log.format import records_of
from rxworker.messages import Conversation, Document, Image, Message, Text, ToolCall, ToolResult
from rxworker.messages.content import ResultBlock
from rxworker.providers import PROVIDERS, Options, Provider
from rxworker.state import fold_run
from rxworker.testing import ReplayServer, ServedResponse, call, say
from rxworker.testing.server import AnswerLike, Received

REST = bytes(range(64))
BYTES = {
    "image/png": b"\x89PNG\r\n\x1a\n" + REST,
    "image/jpeg": b"\xff\xd8\xff\xe0" + REST,
    "image/gif": b"GIF89a" + REST,
    "image/webp": b"RIFF\x20\0\0\0WEBPVP8 " + REST,
    "image/heic": b"\0\0\0\x18ftypheic\0\0\0\0" + REST,
    "image/heif": b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic" + REST,
    "image/avif": b"\0\0\0\x1cftypmif1\0\0\0\0mif1avifmiaf" + REST,
    "image/bmp": b"BM\x46\0\0\0\0\0\0\0" + REST,
    "image/tiff": b"II*\0" + REST,
    "image/svg+xml": b'<?xml version="1.0"?><!-- drawn -->\n<svg xmlns="http://www.w3.org/2000/svg"/>',
    "unknown": b"<!doctype html><title>404</title>",
}
DATA = {kind: b64encode(held).decode() for kind, held in BYTES.items()}
# Each picture with what it truly is.
PICTURES: dict[str, tuple[Image, str]] = {
    **{f"{kind} under its name": (Image(kind, data), kind) for kind, data in DATA.items()},
    "a jpeg under the name of a png": (Image(data=DATA["image/jpeg"]), "image/jpeg"),
    "a webp under the name of a jpeg": (Image("image/jpeg", DATA["image/webp"]), "image/webp"),
    "a heic under the name of a jpeg": (Image("image/jpeg", DATA["image/heic"]), "image/heic"),
    "a jpeg under another name of it": (Image("image/jpg", DATA["image/jpeg"]), "image/jpeg"),
    "a png under a name with a parameter": (Image("IMAGE/PNG; q=1", DATA["image/png"]), "image/png"),
    "a png in lines": (Image(data="\n".join((DATA["image/png"][:60], DATA["image/png"][60:]))), "image/png"),
    "a gif in an address": (Image(url=f"data:image/png;base64,{DATA['image/gif']}"), "image/gif"),
    "an svg in an address": (Image(url="data:image/svg+xml,%3Csvg%20width='9'/%3E"), "image/svg+xml"),
    "an error page under the name of a png": (Image(data=DATA["unknown"]), "unknown"),
    "nothing": (Image(data=""), "nothing"),
}
USUAL = {"image/png", "image/jpeg", "image/gif", "image/webp"}
GOOGLE = {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
TAKEN = {
    "anthropic": USUAL,
    "bedrock": USUAL,
    "gemini": GOOGLE,
    "gemini_interactions": {*GOOGLE, "image/gif", "image/bmp", "image/tiff"},
    "ollama": {"image/png", "image/jpeg", "image/webp"},
    "openai_chat": USUAL,
    "openai_responses": USUAL,
}


def parts_of(body: Any) -> Iterator[dict[str, Any]]:
    """Every object in a body."""
    inner: list[Any] = []
    match body:
        case {**members}:
            yield members
            inner = [*members.values()]
        case [*inner]:
            pass
        case _:
            pass
    for part in inner:
        yield from parts_of(part)


def pictures_of(body: Any) -> Iterator[tuple[str | None, str]]:
    """The media type and the data of every picture in the body of a request, in any of the protocols."""
    for part in parts_of(body):
        match part:
            case {"type": "image", "source": {"media_type": kind, "data": data}}:
                yield kind, data
            case {"image": {"format": kind, "source": {"bytes": data}}}:
                yield f"image/{kind}", data
            case {"inlineData": {"mimeType": kind, "data": data}}:
                yield kind, data
            case {"type": "image", "mime_type": kind, "data": data}:
                yield kind, data
            case {"images": [*several]}:
                yield from ((None, data) for data in several)
            case {"image_url": {"url": str(url)}} | {"type": "input_image", "image_url": str(url)}:
                head, _, data = url.partition(",")
                yield head.removeprefix("data:").removesuffix(";base64"), data
            case _:
                pass


def refused_picture(service: str, body: Any) -> str | None:
    """Why a service refuses a picture in a request: it looks at the bytes and at the name."""
    for named, data in pictures_of(body):
        true = next((kind for kind, held in BYTES.items() if b64decode(data) == held), "nothing")
        if true not in TAKEN[service] or named not in (None, true):
            return f"{service} refuses a picture of {true} named {named}"
    return None


def provider_of(service: str, base_url: str | None = None) -> Provider:
    model = "gemini-3.5-flash" if service == "gemini" else "a-model"
    return PROVIDERS[service](model, api_key="k", base_url=base_url)


def body_of(service: str, *messages: Message) -> Any:
    return msgspec.json.decode(provider_of(service).request(Conversation(messages), (), Options()).body)


def answered(*content: ResultBlock) -> tuple[Message, ...]:
    return (
        Message.user("look"),
        Message.assistant(ToolCall("c1", "look", {})),
        Message.user(ToolResult("c1", content, name="look")),
    )


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("service", PROVIDERS)
def test_a_picture_of_a_tool_is_sent_as_what_it_is_or_as_a_text(service: str, name: str) -> None:
    picture, true = PICTURES[name]
    body = body_of(service, *answered(Text("see"), picture))
    assert refused_picture(service, body) is None
    notes = [text for part in parts_of(body) for text in part.values() if "left out of this result" in str(text)]
    if true in TAKEN[service]:
        assert len(list(pictures_of(body))) == 1
        assert not notes
    else:
        assert not list(pictures_of(body))
        assert notes


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("service", PROVIDERS)
def test_a_picture_of_the_user_is_sent_as_what_it_is_or_raises(service: str, name: str) -> None:
    picture, true = PICTURES[name]
    if true in TAKEN[service]:
        body = body_of(service, Message.user("see", picture))
        assert refused_picture(service, body) is None
        assert len(list(pictures_of(body))) == 1
    else:
        reason = "neither data" if true == "nothing" else re.escape(f"of type {true}, only")
        with pytest.raises(LocalProtocolError, match=reason):
            body_of(service, Message.user("see", picture))


@pytest.mark.parametrize("service", PROVIDERS)
def test_the_address_of_a_picture_is_sent_unchanged(service: str) -> None:
    address = "s3://bucket/a.png" if service == "bedrock" else "https://h/a.png"
    assert address in str(body_of(service, *answered(Image(url=address))))


def test_a_text_in_place_of_a_part_states_the_reason_and_no_remedy() -> None:
    content = (Image("image/heic", DATA["image/heic"]), Document(data="AA"))
    [*_, heic, pdf] = body_of("ollama", *answered(*content))["messages"][-1]["content"].split("\n")
    assert heic == "[left out of this result: Ollama takes no picture of type image/heic, only png, jpeg and webp]"
    assert pdf == "[left out of this result: Ollama takes no Document of application/pdf]"


PATHS = {
    "/messages": "anthropic",
    "/converse-stream": "bedrock",
    ":streamGenerateContent": "gemini",
    "/interactions": "gemini_interactions",
    "/api/chat": "ollama",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
}


def refusing(*answers: AnswerLike) -> Any:
    """A service of any protocol that gives these answers, and then `ok`, but refuses what the real one refuses."""
    numbers = count()

    def answer(received: Received) -> AnswerLike:
        path = received.path.partition("?")[0]
        service = next(name for end, name in PATHS.items() if path.endswith(end))
        if reason := refused_picture(service, received.body):
            return ServedResponse.from_json({"error": {"message": reason}, "message": reason}, status=400)
        number = next(numbers)
        return answers[number] if number < len(answers) else say("ok")

    return answer


@pytest.mark.parametrize("service", PROVIDERS)
async def test_a_picture_of_a_tool_that_is_refused_ends_no_run_of_its_session(service: str) -> None:
    @tool
    def look() -> list[Image]:
        """Look."""
        return [picture for picture, _ in PICTURES.values()]

    async with ReplayServer(refusing(call("look"))) as server, MemoryLog() as log:
        worker = Worker(provider_of(service, server.base_url), tools=[look], log=log)
        assert (await worker.run("look")).text == "ok"
        run = worker.run("again")
        assert (await run).text == "ok"
        entries = [entry async for entry in log.read(run.id)]
        kept = fold_run(list(records_of(entries, run.id))).conversation  # what another process finds
        for other in PROVIDERS:
            after = Worker(provider_of(other, server.base_url), tools=[look], conversation=kept)
            result = await after.run("and now?")
            assert isinstance(result, Finished), other
            assert result.text == "ok"
