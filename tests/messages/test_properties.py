"""What holds for every conversation, whatever is wrong with it: it can be fixed, cut, kept, and sent to anybody."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rxworker.messages import (
    CachePoint,
    Content,
    Conversation,
    Document,
    Image,
    Json,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    compact,
    estimate,
    fork,
    from_json,
    repair,
    to_json,
    trim,
    turns,
    validate,
)
from rxworker.messages.repair import OPENING
from rxworker.providers import Anthropic, Gemini, Ollama, OpenAIChat, OpenAIResponses, Options, Provider

MADE_UP = "made up"
PROVIDERS: dict[str, Provider] = {
    "anthropic": Anthropic("m", api_key="k"),
    "openai_chat": OpenAIChat("m", api_key="k"),
    "openai_responses": OpenAIResponses("m", api_key="k"),
    "gemini": Gemini("gemini-3-pro", api_key="k"),
    "ollama": Ollama("m"),
}

# --- conversations of all sorts

IDS = st.sampled_from(["a", "b", "c", "a_2", "rxw_1", ""])
NAMES = st.sampled_from(["look", "find"])
TEXTS = st.sampled_from(["", " ", "hi", "what is it?", "日本語"])
ARGUMENTS: st.SearchStrategy[JsonObject | str] = st.sampled_from([dict[str, Json](), {"at": [1, "x", None]}, "{oh"])
texts = st.builds(Text, TEXTS)
images = st.builds(Image, data=st.sampled_from([None, "iVBORw0KGgo="]), url=st.sampled_from([None, "u"]))
documents = st.builds(Document, data=st.sampled_from([None, "AAAA"]))
calls = st.builds(ToolCall, IDS, NAMES, ARGUMENTS)
results = st.builds(
    ToolResult,
    IDS,
    st.one_of(TEXTS, st.lists(st.one_of(texts, images, documents), max_size=2).map(tuple)),
    st.booleans(),
)
thoughts = st.one_of(
    st.builds(Thinking, TEXTS, st.sampled_from([None, "sealed"])),
    st.just(Thinking("", None, {"type": "redacted_thinking", "data": "x"})),
)
others = st.one_of(
    st.builds(Refusal, TEXTS),
    st.builds(ServerToolCall, IDS, NAMES),
    st.builds(ServerToolResult, IDS, NAMES),
    st.just(OpaqueBlock("new", {"type": "new", "value": 1})),
    st.just(CachePoint()),
)
blocks: st.SearchStrategy[Content] = st.one_of(
    texts, calls, results, calls, results, images, documents, thoughts, others
)
messages = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "user", "assistant", "system"]),
    st.lists(blocks, max_size=4).map(tuple),
    st.sampled_from([None, *PROVIDERS]),
)
conversations = st.builds(Conversation, st.lists(messages, max_size=8).map(tuple), st.sampled_from([None, "Be brief."]))
sound = conversations.map(repair)


# --- mending


def words(said: Conversation) -> list[object]:
    """What the user and the application said, without what says nothing."""
    return [
        block
        for message in said.messages
        if message.role != "assistant"
        for block in message.content
        if (isinstance(block, Text) and block.text.strip() and block.text != OPENING)
        or (isinstance(block, Image | Document) and (block.data or block.url))
        if not (isinstance(block, Text) and "was lost" in block.text)
    ]


@settings(max_examples=100)
@given(conversations)
def test_what_is_repaired_is_sound_has_all_words_of_the_user_and_is_what_it_was_if_that_was_sound(
    said: Conversation,
) -> None:
    fixed = repair(said)
    assert validate(fixed) == []
    assert repair(fixed) == fixed
    assert (validate(said) == []) == (fixed == said)
    assert words(fixed) == words(said)


@given(conversations)
def test_results_are_those_that_were_given_or_state_why_there_is_none(said: Conversation) -> None:
    given_texts = {r.text for m in said.messages for r in m.tool_results}
    for message in repair(said, MADE_UP).messages:
        for result in message.tool_results:
            lost = "was lost" in result.text
            assert lost or result.text in given_texts or (result.text == MADE_UP and result.is_error)


# --- being sent


def body_of(provider: str, said: Conversation) -> Any:
    return msgspec.json.decode(PROVIDERS[provider].request(said, (), Options()).body)


def blocks_of(message: Any, kind: str) -> list[Any]:
    return [block for block in message["content"] if block["type"] == kind]


def check_anthropic(body: Any) -> None:
    """Roles alternate, the user begins, and the results of all calls stand first in the next message."""
    sent = body["messages"]
    assert [m["role"] for m in sent] == [("user", "assistant")[n % 2] for n in range(len(sent))]
    ids = [call["id"] for m in sent for call in blocks_of(m, "tool_use")]
    assert len(set(ids)) == len(ids)
    asked: list[Any] = []
    for message in sent:
        assert message["content"]
        found = blocks_of(message, "tool_result")
        assert message["content"][: len(found)] == found
        assert [result["tool_use_id"] for result in found] == asked
        asked = [call["id"] for call in blocks_of(message, "tool_use")]
    assert asked == []


def check_chat(body: Any) -> None:
    """A message for each call right behind the calls, in their order, and nowhere else."""
    asked: list[Any] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == asked.pop(0)
            continue
        assert asked == []
        asked = [call["id"] for call in message.get("tool_calls", ())]
        assert len(set(asked)) == len(asked)
    assert asked == []


def check_responses(body: Any) -> None:
    """One output behind each call, of the sort that the call was of."""
    open_calls: dict[str, str] = {}
    seen: set[str] = set()
    for item in body["input"]:
        kind = item.get("type", "")
        if kind.endswith("_call"):
            assert item["call_id"] not in seen
            seen.add(item["call_id"])
            open_calls[item["call_id"]] = f"{kind}_output"
        elif kind.endswith("_output"):
            assert open_calls.pop(item["call_id"]) == kind
        elif item.get("role") == "user":
            assert open_calls == {}
    assert open_calls == {}


def parts_of(content: Any, kind: str) -> list[Any]:
    return [part[kind] for part in content["parts"] if kind in part]


def check_gemini(body: Any) -> None:
    """Roles alternate, the user begins, and the answers to the calls stand first in the next content."""
    sent = body["contents"]
    assert [c["role"] for c in sent] == [("user", "model")[n % 2] for n in range(len(sent))]
    asked: list[Any] = []
    for content in sent:
        assert content["parts"]
        found = parts_of(content, "functionResponse")
        assert all("functionResponse" in part for part in content["parts"][: len(found)])
        assert [(one["name"], one.get("id")) for one in found] == asked
        asked = [(call["name"], call.get("id")) for call in parts_of(content, "functionCall")]
    assert asked == []


def check_ollama(body: Any) -> None:
    """A message for each call right behind the calls, in their order, with the tool's name."""
    asked: list[Any] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_name"] == asked.pop(0)
            continue
        assert asked == []
        asked = [call["function"]["name"] for call in message.get("tool_calls", ())]
    assert asked == []


CHECKS: dict[str, Callable[[Any], None]] = {
    "anthropic": check_anthropic,
    "openai_chat": check_chat,
    "openai_responses": check_responses,
    "gemini": check_gemini,
    "ollama": check_ollama,
}


def ollama_refuses(block: object) -> bool:
    """Whether it is content for which Ollama's protocol has no form, where a user or a tool gives it."""
    if isinstance(block, ToolResult) and not isinstance(block.content, str):
        return any(map(ollama_refuses, block.content))
    return isinstance(block, OpaqueBlock) or (isinstance(block, Document) and bool(block.data))


def can_be_sent(provider: str, said: Conversation) -> bool:
    return provider != "ollama" or not any(
        ollama_refuses(block) for message in said.messages if message.role != "assistant" for block in message.content
    )


@settings(max_examples=100)
@given(conversations, st.integers(0, 200), st.integers(0, 3))
def test_what_is_repaired_and_what_is_trimmed_of_it_can_be_sent_to_every_provider(
    said: Conversation, most: int, first: int
) -> None:
    repaired = repair(said)
    for fixed in (repaired, trim(repaired, most, keep_first=first)):
        for provider, check in CHECKS.items():
            if can_be_sent(provider, fixed):
                check(body_of(provider, fixed))


# --- being cut


@given(conversations)
def test_the_turns_are_the_conversation(said: Conversation) -> None:
    found = turns(said)
    assert tuple(chain.from_iterable(found)) == said.messages
    assert all(found)


def is_whole(said: Sequence[Message]) -> bool:
    """Whether all its results answer calls of its own, and all its calls have results."""
    return not any("result" in complaint for complaint in validate(Conversation(tuple(said))))


@given(sound)
def test_no_turn_parts_a_call_from_its_result_or_an_answer_from_itself(said: Conversation) -> None:
    found = turns(said)
    assert all(map(is_whole, found))
    for before, after in pairwise(found):
        assert (before[-1].role, after[0].role) != ("assistant", "assistant")


@given(sound, st.data())
def test_a_fork_is_the_conversation_up_to_a_turn_and_sound(said: Conversation, data: st.DataObject) -> None:
    found = turns(said)
    if not found:
        return
    turn = data.draw(st.integers(0, len(found) - 1))
    forked = fork(said, turn)
    assert forked == said.with_messages(chain.from_iterable(found[: turn + 1]))
    assert fork(said, turn - len(found)) == forked
    assert validate(forked) == []


@settings(max_examples=100)
@given(sound, st.integers(0, 200), st.integers(0, 3))
def test_what_is_trimmed_is_sound_and_keeps_what_has_to_stay(said: Conversation, most: int, first: int) -> None:
    trimmed = trim(said, most, keep_first=first)
    assert validate(trimmed) == []
    assert trimmed.system == said.system
    is_system = [m for m in said.messages if m.role == "system"]
    assert [m for m in trimmed.messages if m.role == "system"] == is_system
    kept = tuple(chain.from_iterable(turns(said)[:first]))
    assert trimmed.messages[: len(kept)] == kept
    left = iter(said.messages)
    assert all(any(m is one for one in left) for m in trimmed.messages)  # in their order
    if said.messages and first == 0:
        assert trimmed.messages[-len(turns(said)[-1]) :] == turns(said)[-1]


def tokens(said: Conversation) -> int:
    system = estimate(Message.system(said.system)) if said.system else 0
    return system + sum(map(estimate, said.messages))


@given(sound, st.integers(0, 200))
def test_what_is_trimmed_has_room_or_is_as_short_as_it_gets(said: Conversation, most: int) -> None:
    trimmed = trim(said, most)
    assert tokens(trimmed) <= most or trimmed == trim(said, -1_000_000)
    if tokens(said) <= most:
        assert trimmed == said
    more = trim(said, most + 10)
    assert len(more.messages) >= len(trimmed.messages)


@given(sound, st.integers(1, 5))
def test_what_is_compacted_is_sound_and_ends_with_the_turns_that_were_kept(said: Conversation, keep: int) -> None:
    compacted = compact(said, "They spoke.", keep)
    assert validate(compacted) == []
    assert compacted.system == said.system
    kept = tuple(chain.from_iterable(turns(said)[-keep:]))
    assert compacted.messages[len(compacted.messages) - len(kept) :] == kept
    again = compact(compacted, "They spoke on.", keep)
    assert len(again.messages) <= len(compacted.messages)


# --- being kept

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**60), 2**60), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=3), inner, max_size=2)),
    max_leaves=5,
)
objects = st.dictionaries(st.text(max_size=3), JSON, max_size=2)
echoing = st.one_of(
    st.builds(Text, st.text(max_size=5), st.lists(objects, max_size=2).map(tuple), objects),
    st.builds(Thinking, st.text(max_size=5), st.none() | st.text(max_size=5), objects),
    st.builds(ToolCall, IDS, NAMES, objects | st.text(max_size=5), st.none() | objects),
    st.builds(ServerToolCall, IDS, NAMES, JSON, objects),
    st.builds(OpaqueBlock, NAMES, objects),
    blocks,
)


@given(
    st.builds(
        Conversation,
        st.lists(
            st.builds(
                Message,
                st.sampled_from(["user", "assistant", "system"]),
                st.lists(echoing, max_size=3).map(tuple),
                st.sampled_from([None, *PROVIDERS]),
                st.none() | st.text(max_size=3),
            ),
            max_size=3,
        ).map(tuple),
        st.none() | st.text(max_size=5),
    )
)
def test_what_is_kept_as_json_comes_back_as_it_was(said: Conversation) -> None:
    assert from_json(to_json(said)) == said
