"""The requirements that servers of the protocol have for a request, by their hosts.

All answers of the protocol are of one provider, whichever server they came from, and keep what their server may want to
see again. A conversation that moves to another server takes all of that along; so the table defines, for the server of
the request, which of it is sent and what it will not do without. A server that is not in the table is sent what came.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from rxworker.providers import takes
from rxworker.providers.endpoint import AZURE, row_of
from rxworker.providers.openai_chat.choice import DETAILS, REASONING, REASONING_CONTENT
from rxworker.providers.openai_chat.wire import SEALS
from rxworker.providers.takes import hashed

REFUSAL = "refusal"
IMAGES = "images"
LONGEST_ID = 40


class Dialect(Struct, frozen=True):
    """The requirements of a server for a request.

    Attributes:
        limit: Its name for the limit of output tokens.
        echoes: What it takes of that which an answer carried beside its text and its calls. A refusal that it does not
            take is text.
        demands_reasoning: Which answers must have ``reasoning_content``, even if it is empty or from another provider:
            none, those with ``calls``, or all ``answers`` of a request with tools.
        switch: Whether thinking is turned off by the member ``thinking`` instead of an effort:
            https://api-docs.deepseek.com/guides/thinking_mode
        ids: What an id of a call must look like; ``None``: whatever the protocol's own answers had.
        id_length: How long an id is that takes the place of one that looks otherwise.
        usage_option: Whether usage is sent for ``stream_options``; without it, the server sends usage anyway and
            refuses the member.
        has_schemas: Whether it takes a schema for the answer; without it, it is sent ``json_object``, and the model
            reads the schema.
        cache_marks: The vendors of whose models it takes marks of what may be cached, as `ModelInfo.vendor` has them.
        flags: Members of its own that each request has as ``true``, unless ``extra`` gives another value.
        tool_flags: The same, for requests with tools.
        after_results: What is sent as an answer between the results of tools and a message of the user's, where the
            server demands an answer there; empty: nothing.
        documents: The media types of documents that it takes, as `rxworker.providers.takes.Takes` has them.
        document_part: The type of the part that a document is sent as, if it is not ``file``.
        no_reasoning: What counts as ``reasoning_content`` of an answer that has none.
        schemas_beside_tools: Whether it takes a form for the answer in a request with tools; without it, the model
            reads the schema.
    """

    limit: str = "max_tokens"
    echoes: tuple[str, ...] = (REASONING_CONTENT, REASONING, DETAILS, *SEALS, REFUSAL)
    demands_reasoning: Literal["", "calls", "answers"] = ""
    switch: bool = False
    ids: re.Pattern[str] | None = None
    id_length: int = LONGEST_ID
    usage_option: bool = True
    has_schemas: bool = True
    cache_marks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    tool_flags: tuple[str, ...] = ()
    after_results: str = ""
    documents: Collection[str] = ("application",)
    document_part: str = ""
    no_reasoning: str = ""
    schemas_beside_tools: bool = True

    def named(self, call_id: str, own: bool) -> str:
        """How a call is named to the server, the same each time.

        Args:
            call_id: The id in the conversation.
            own: Whether an answer of this protocol has it.

        >>> MISTRAL.named("a1B2c3D4e", own=True), len(MISTRAL.named("call_1", own=True))
        ('a1B2c3D4e', 9)
        """
        fits = self.ids.fullmatch(call_id) if self.ids else own or len(call_id) <= self.id_length
        return call_id if fits else hashed(call_id)[: self.id_length]


COMPATIBLE = Dialect()
OPENAI = Dialect("max_completion_tokens", (REFUSAL,), ids=re.compile(r"(?s).{1,40}"), documents=(takes.PDF,))
UNDERSTOOD = "Understood."
# A document: https://docs.mistral.ai/studio-api/document-processing/document_qna. The order of messages, which the
# template of its models demands at other servers, too: https://github.com/avante-corp/avante.nvim/pull/2695
MISTRAL = Dialect(
    echoes=(),
    ids=re.compile("[a-zA-Z0-9]{9}"),
    id_length=9,
    usage_option=False,
    after_results=UNDERSTOOD,
    documents=takes.MISTRAL,
    document_part="document_url",
)
REASONED = Dialect(echoes=(REASONING,))
CONTENT = Dialect(echoes=(REASONING_CONTENT,))
# An empty text counts as none: https://github.com/theopenco/llmgateway/pull/2093
KIMI = Dialect("max_completion_tokens", (REASONING_CONTENT,), demands_reasoning="calls", switch=True, no_reasoning=" ")
# Without the flag, the arguments of a call come at once when they are whole:
# https://docs.z.ai/guides/capabilities/stream-tool
GLM = Dialect(echoes=(REASONING_CONTENT,), switch=True, has_schemas=False, tool_flags=("tool_stream",))
# Without the flag, thinking comes as text between tags: https://platform.minimax.io/docs/api-reference/text-openai-api
MINIMAX = Dialect("max_completion_tokens", (REASONING_CONTENT, DETAILS), switch=True, flags=("reasoning_split",))

# By the host or its end.
DIALECTS = {
    "openai.com": OPENAI,
    "api.aws": OPENAI,  # Bedrock's mantle
    **dict.fromkeys(AZURE, OPENAI),
    "deepseek.com": Dialect(
        echoes=(REASONING_CONTENT,), demands_reasoning="answers", switch=True, has_schemas=False, documents=()
    ),
    **dict.fromkeys(("moonshot.ai", "moonshot.cn", "kimi.com"), KIMI),
    "openrouter.ai": Dialect(echoes=(DETAILS, IMAGES), cache_marks=("anthropic", "qwen")),
    # https://console.groq.com/docs/structured-outputs, https://console.groq.com/docs/vision
    "groq.com": replace(REASONED, documents=(), schemas_beside_tools=False),
    "cerebras.ai": Dialect("max_completion_tokens", (REASONING,)),  # refuses reasoning_content
    **dict.fromkeys(("together.xyz", "together.ai"), REASONED),
    **dict.fromkeys(("siliconflow.cn", "siliconflow.com", "x.ai"), CONTENT),
    "aliyuncs.com": replace(CONTENT, cache_marks=("qwen",)),
    **dict.fromkeys(("bigmodel.cn", "z.ai"), GLM),
    **dict.fromkeys(("minimax.io", "minimaxi.com"), MINIMAX),
    "mistral.ai": MISTRAL,
    "googleapis.com": Dialect(echoes=SEALS),
}


@lru_cache(maxsize=64)  # used for each request, of the same few addresses
def dialect_of(url: str) -> Dialect:
    """The dialect of the server at an address.

    >>> dialect_of("https://api.deepseek.com").demands_reasoning, dialect_of("http://127.0.0.1").demands_reasoning
    ('answers', '')
    """
    return row_of(DIALECTS, url, COMPATIBLE)


@lru_cache(maxsize=64)
def for_maker(dialect: Dialect, maker: str) -> Dialect:
    """The dialect with what the template of a maker's models demands, whichever server has them.

    >>> for_maker(COMPATIBLE, "mistral").after_results
    'Understood.'
    """
    return replace(dialect, after_results=UNDERSTOOD) if maker == "mistral" else dialect
