"""What a provider remembers of a conversation changes nothing of what it sends."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rxworker.messages import (
    CachePoint,
    Content,
    Conversation,
    Document,
    Image,
    JsonObject,
    Message,
    OpaqueBlock,
    Refusal,
    ServerToolCall,
    ServerToolResult,
    Text,
    Thinking,
    ToolCall,
    ToolMeta,
    ToolResult,
)
from rxworker.providers import Anthropic, OpenAIChat, OpenAIResponses, Options, Provider
from rxworker.providers.anthropic.options import encode_tool
from rxworker.providers.encode_cache import MAX, MAX_BYTES, MessageEncoder, Part, Remembered, array

NAMES = ("anthropic", "openai_chat", "openai_responses", None)
IDS = st.sampled_from(["a", "b", "functions.look:0", "x" * 70])
PICTURE = Image(data="iVBORw0KGgo=")
PAGE = Document("text/plain", data="AAAA", title="page")

ITEM = {"output_index": 0, "item": {"type": "custom_tool_call", "call_id": "a"}, "type": "custom_tool_call"}
ECHOES = st.sampled_from([None, ITEM, {"type": "server_tool_use", "id": "a"}, {"type": "other", "tool_use_id": "a"}])
THOUGHTS = st.sampled_from([None, {"field": "reasoning_content"}])
SPOKEN: st.SearchStrategy[Content] = st.one_of(
    st.builds(Text, st.sampled_from(["", " ", "yes", "é"]), echo=ECHOES),
    st.builds(Refusal, st.sampled_from(["", "no"])),
    st.builds(Thinking, st.sampled_from(["", "hm"]), st.sampled_from([None, "seal"]), THOUGHTS),
    st.builds(ToolCall, IDS, st.just("look"), st.sampled_from([{}, {"n": 1}, "{oh"]), echo=ECHOES),
    st.builds(ServerToolCall, IDS, st.just("search"), echo=ECHOES),
    st.builds(ServerToolResult, IDS, echo=ECHOES),
    st.builds(OpaqueBlock, st.just("other"), echo=ECHOES),
    st.builds(CachePoint, st.sampled_from([None, "1h"])),
)
ASKED: st.SearchStrategy[Content] = st.one_of(
    st.builds(Text, st.sampled_from(["", "why"])),
    st.builds(ToolResult, IDS, st.sampled_from(["", "sky", (Text("sky"),), (PICTURE,)]), st.booleans()),
    st.sampled_from([PICTURE, PAGE, CachePoint()]),
    st.just(OpaqueBlock("other", {"type": "other"})),
)
MESSAGES = st.one_of(
    st.builds(Message, st.just("assistant"), st.lists(SPOKEN, max_size=4).map(tuple), st.sampled_from(NAMES)),
    st.builds(Message, st.just("user"), st.lists(ASKED, max_size=4).map(tuple)),
    st.sampled_from(["", "be brief"]).map(Message.system),
)
# What becomes of the conversation before the next request: how many messages are taken from its beginning and its end,
# and what is put behind it.
STEPS = st.tuples(st.sampled_from([0, 0, 0, 1]), st.integers(0, 2), st.lists(MESSAGES, max_size=4).map(tuple))
MAKERS: list[Callable[[], Provider]] = [
    lambda: Anthropic("m", api_key="k"),
    lambda: OpenAIChat("m", api_key="k"),
    lambda: OpenAIChat("m", base_url="https://api.deepseek.com", api_key="k"),
    lambda: OpenAIChat("mistral-large-2512", base_url="https://api.mistral.ai", api_key="k"),
    lambda: OpenAIResponses("m", api_key="k"),
]


@pytest.mark.parametrize("make", MAKERS)
@given(steps=st.lists(STEPS, max_size=6), cached=st.booleans())
def test_a_request_is_what_a_new_provider_would_send(
    make: Callable[[], Provider], steps: list[tuple[int, int, tuple[Message, ...]]], cached: bool
) -> None:
    """Whether a conversation grows, loses its beginning, or forks."""
    provider = make()
    options = Options(cache=("system",) if cached else ())
    messages: tuple[Message, ...] = ()
    for first, last, new in steps:
        messages = messages[first : len(messages) - last] + new
        conversation = Conversation(messages, "Be kind.")
        for _ in range(2):  # the second time as it is asked again after a failure
            sent = provider.request(conversation, (), options).body
            assert sent == make().request(conversation, (), options).body


def test_a_server_is_sent_what_it_wants_wherever_the_conversation_went_before(monkeypatch: pytest.MonkeyPatch) -> None:
    thought = Thinking("Hm.", echo={"field": "reasoning_content"})
    answer = Message("assistant", (thought, ToolCall("call_1", "look", {})), "openai_chat")
    conversation = Conversation((Message.user("hi"), answer))
    provider = OpenAIChat("m", api_key="k")
    sent: list[bytes] = []
    for host in ("api.mistral.ai", "api.deepseek.com", "api.mistral.ai"):
        monkeypatch.setenv("OPENAI_BASE_URL", f"https://{host}")
        sent.append(provider.request(conversation, (), Options()).body)
        assert sent[-1] == OpenAIChat("m", api_key="k").request(conversation, (), Options()).body
    assert sent[0] == sent[2] != sent[1]


def test_equal_messages_are_not_the_same() -> None:
    """One is true, but is not written like it."""
    provider = OpenAIChat("m", api_key="k")
    hello = Message.user("hello")
    for value in (1, True):
        call = Message.assistant(ToolCall("call_1", "look", {"at": value}))
        sent = provider.request(Conversation((hello, call)), (), Options()).body
        assert sent == OpenAIChat("m", api_key="k").request(Conversation((hello, call)), (), Options()).body


def test_a_mark_stands_where_it_would_whatever_was_sent_before_it() -> None:
    """Results come first in what is sent, not in what the mark looks back on."""
    provider = Anthropic("m", api_key="k")
    first = Message.user("why", ToolResult("a", "sky"))
    conversation = Conversation((Message.user("hi"), Message.assistant("yes"), first))
    provider.request(conversation, (), Options())
    conversation = conversation.add(Message.user(CachePoint(), "so?"))
    sent = provider.request(conversation, (), Options()).body
    assert sent == Anthropic("m", api_key="k").request(conversation, (), Options()).body


class Count(MessageEncoder):
    """Counts the messages it took."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def feed(self, message: Message) -> None:
        self.count += 1


def kept(messages: tuple[Message, ...], size: int = 0) -> Remembered[Count]:
    remembered, encoder = Remembered[Count](encode_tool), Count()
    encoder.feed_new(messages)
    remembered.keep(messages, encoder, size)
    return remembered


def test_a_message_is_encoded_once() -> None:
    messages = (Message.user("a"), Message.assistant("b"), Message.user("c"))
    encoder = kept(messages[:1]).take(messages)
    assert encoder is not None
    encoder.feed_new(messages)
    assert encoder.count == len(messages)


def test_who_takes_an_encoder_has_it_alone() -> None:
    messages = (Message.user("a"),)
    remembered = kept(messages)
    assert remembered.take(messages)
    assert remembered.take(messages) is None


@pytest.mark.parametrize("block", [PICTURE, PAGE, ToolResult("a", (PICTURE,)), ToolResult("a", (Text("b"), PAGE))])
def test_pictures_and_documents_are_not_kept(block: Content) -> None:
    messages = (Message.user("a"), Message.user(block))
    assert kept(messages).take(messages) is None


def test_what_is_remembered_has_bounds() -> None:
    messages = (Message.user("a"),)
    assert kept(messages, MAX_BYTES).take(messages)
    assert kept(messages, MAX_BYTES + 1).take(messages) is None
    remembered = Remembered[Count](encode_tool)
    said = [(Message.user("a"),) for _ in range(MAX + 1)]
    for one in said:
        remembered.keep(one, Count(), 0)
    assert [remembered.take(one) is None for one in said] == [True] + [False] * MAX


LOOK = ToolMeta("look", "Looks.", {"type": "object"})
WAIT = ToolMeta("wait", "", {"type": "object"})
OPTIONS = [
    Options(),
    Options(cache=("tools",)),
    Options(extra={"tools": [{"type": "web_search"}]}),
    Options(extra={"tools": None}),
    Options(extra={"top_k": 1}),
]


@pytest.mark.parametrize("make", MAKERS)
@given(asked=st.lists(st.tuples(st.sets(st.sampled_from([0, 1])), st.sampled_from(OPTIONS))))
def test_tools_are_what_a_new_provider_would_send(
    make: Callable[[], Provider], asked: list[tuple[set[int], Options]]
) -> None:
    """Whether the request before had the same, others, or none, and whatever the options add to them."""
    provider = make()
    conversation = Conversation((Message.user("hi"),))
    for which, options in asked:
        tools = [(LOOK, WAIT)[one] for one in which]
        sent = provider.request(conversation, tools, options).body
        assert sent == make().request(conversation, tools, options).body


def test_a_tool_is_encoded_once() -> None:
    encoded: list[str] = []

    def encode(tool: ToolMeta) -> JsonObject:
        encoded.append(tool.name)
        return encode_tool(tool)

    remembered = Remembered[Count](encode)
    for tools in [(), (LOOK, WAIT), [LOOK, WAIT], (LOOK,), (LOOK,)]:
        plain = [encode_tool(tool) for tool in tools]
        assert bytes(remembered.tools(tools)) == msgspec.json.encode(plain)
    assert encoded == ["look", "wait", "look"]


def test_equal_tools_are_not_the_same() -> None:
    remembered = Remembered[Count](encode_tool)
    one, true = (ToolMeta("look", "", {"default": value}) for value in (1, True))
    assert one == true
    assert bytes(remembered.tools([one])) != bytes(remembered.tools([true]))


def test_an_array_is_put_together_of_what_was_encoded() -> None:
    first: JsonObject = {"a": 1}
    last: JsonObject = {"b": []}
    several: list[list[Part]] = [[b'{"a":1},{}', b'{"b":[]}'], [b'{"a":1},{}', last], [first, {}, last]]
    for parts in several:
        assert msgspec.json.encode(array(parts)) == b'[{"a":1},{},{"b":[]}]'
    assert msgspec.json.encode(array([])) == b"[]"


def test_a_copy_of_a_provider_remembers_nothing() -> None:
    provider = Anthropic("m", api_key="k")
    conversation = Conversation((Message.user("a very private word"),))
    private = ToolMeta("look", "very private", {"type": "object"})
    provider.request(conversation, (private,), Options())
    body = provider.request(conversation, (), Options()).body
    pickled = pickle.dumps(provider)
    assert b"private" not in pickled
    for other in (pickle.loads(pickled), copy.deepcopy(provider), copy.copy(provider)):
        assert other.request(conversation, (), Options()).body == body
