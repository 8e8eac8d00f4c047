"""What the services' errors mean: statuses, words, numbers and sentences, in one table.

`failure` alone reads it, for the bodies of answers, errors within streams and over WebSockets, and event streams. The
pages were read on 2026-11-29. A word is compared without its case, its signs, and "error" or "exception" at its end.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from rxworker.events.meta import TRUNCATED

_NOT_IN_A_WORD = re.compile(r"[^a-z0-9]")


def key(word: str) -> str:
    """The form of a word in which it is compared.

    >>> key("rate_limit_error"), key("ThrottlingException"), key("RATE_LIMIT_EXCEEDED")
    ('ratelimit', 'throttling', 'ratelimitexceeded')
    """
    return _NOT_IN_A_WORD.sub("", word.lower()).removesuffix("exception").removesuffix("error")


class _Words(Struct, frozen=True, forbid_unknown_fields=True):
    """The words of a service for each kind of error, with a space between two of them."""

    service: str
    source: str
    words: dict[str, str]


_TABLE = msgspec.json.decode(Path(__file__).with_name("error_words.json").read_bytes(), type=tuple[_Words, ...])
# Service, kind, words. A word means the same at every service, except a number of MiniMax.
ROWS = [(row.service, kind, words) for row in _TABLE for kind, words in row.words.items()]
WORDS: Final = {key(word): kind for of, kind, words in ROWS if of != "minimax" for word in words.split()}
MINIMAX: Final = {word: kind for of, kind, words in ROWS if of == "minimax" for word in words.split()}
STATUSES: Final = {
    400: "invalid_request",
    401: "authentication",
    402: "quota",
    403: "permission",
    404: "not_found",
    408: "timeout",
    409: "server",
    413: "context_length",
    422: "invalid_request",
    424: "server",  # Bedrock: the model returned an error
    429: "rate_limit",
    498: "overloaded",  # Groq: no capacity for the tier flex
    499: "cancelled",
    501: "invalid_request",
    503: "overloaded",
    504: "timeout",
    524: "timeout",  # Cloudflare
    529: "overloaded",  # Anthropic
}
FINISH_REASONS: Final = {"error": "server"} | {
    word: WORDS[key(word)] for word in ("network_error", "insufficient_system_resource")
}
"""The kinds of error of the finish reasons of Chat Completions that report one."""
RETRYABLE_KINDS: Final = frozenset({"rate_limit", "overloaded", "server", "timeout", TRUNCATED})
FINAL_KINDS: Final = frozenset({"quota", "context_length", "authentication", "permission"})
"""The kinds that no status makes retryable."""

SEALED: Final = re.compile(
    # Anthropic, Bedrock; Gemini; OpenAI; xAI: of the conversation, not of the request, whose signature is a 403.
    r"signature\W.{0,60}(block|required|decod)|signature .{0,20}(not valid|invalid)"
    r"|(invalid|corrupted|unverified|could not verify)\b.{0,30}signature"
    r"|invalid.{0,30}redacted_thinking|thinking\W.{0,60}cannot be modified"
    r"|encrypted.?content.{0,200}(verif|decrypt|pars|match)"
    r"|invalid_encrypted|\b(invalid|decrypt|verify)\b.{0,40}encrypted.?content"
    r"|\bitem (with id )?'\w+'.{0,90}(not found|without its required)|item_id did not match"
    r"|\bcontainer\b.{0,90}(not found|expired|not exist)",
    re.IGNORECASE | re.DOTALL,
)
"""How services refuse a request for what an earlier answer holds sealed."""

_VAGUE: Final = frozenset({"unknown", "invalid_request"})
_UNKNOWN: Final = frozenset({"unknown"})
_ANY: Final = _VAGUE | {"server", "permission", "rate_limit"}
# Kind, the kinds that a sentence makes more exact, and the sentence; the first that is found counts. Sentences are
# compared with the message and with the words that are not known, in words of their own ("model rate limit").
SENTENCES: Final = tuple(
    (kind, over, re.compile(pattern, re.IGNORECASE | re.MULTILINE))
    for kind, over, pattern in (
        # Alibaba's words for a limit a minute
        ("rate_limit", _VAGUE | {"quota"}, r"^(?!free).*allocated quota exceeded"),
        (
            "quota",
            _ANY,
            r"insufficient.?(balance|credits?|funds)|balance (is|was) (insufficient|too low|exhausted)"
            r"|used all available credits|(out of|no|not enough) credits|(credit|spend(ing)?) limit|\busage limits?\b",
        ),
        ("quota", _UNKNOWN, r"exceeded (your|the) .*quota|subscription|upgrade|billing"),
        ("quota", _UNKNOWN | {"permission"}, r"quota (is |was |has been )?(reached|exceeded|exhausted)"),
        ("rate_limit", _VAGUE, r"(tokens?|requests?) per (second|min|minute|hour|day)\b|too many requests"),
        ("rate_limit", _VAGUE, r"rate.?limit(ed)? (reached|exceeded)|too many tokens.{0,3}please wait"),
        ("rate_limit", _UNKNOWN, r"rate.?limit|throttl"),
        (
            "context_length",
            _VAGUE | {"server"},
            r"context.?(length|window|size|limit)|maximum context|context the overflow"
            r"|(prompt|inputs?|messages?|request|conversation) (is |are |was )?too (long|large)\b"
            r"|too many .{0,16}tokens"
            r"|exceed\w* (?!deadline).{0,60}\bcontext\b|\bcontext (?!deadline).{0,60}\bexceed"
            r"|token count is \d+|(token count|(?<!_)tokens) .{0,60}exceeds? the (maximum|limit|model|configured)"
            r"|token limit (is |was )?exceeded"
            r"|exceed\w* (the )?(model('s)? )?(token limit|max\w* (allowed |input |prompt )*(length|tokens))"
            r"|exceed\w* (the )?max\w* number of (input )?tokens|range of input length"
            r"|longer than the (max\w* )?model|n_keep.{0,20}n_ctx"
            r"|max\w* (prompt|input) (token )?length|reduce the length of the (messages|prompt|input)"
            r"|`inputs` (tokens \+|must have less)",
        ),
        (
            "authentication",
            _VAGUE,
            r"(incorrect|invalid|missing|wrong|expired|no) (api.?key|x-api-key)"
            r"|api.?key\W+(\S+ )?((is|has|was|been) )*(not valid|invalid|expired|not found|missing|revoked|disabled)",
        ),
        ("authentication", _UNKNOWN, r"unauthori[sz]ed|unauthenticated|sign(ed)? in|authentication|invalid .*token\b"),
        ("authentication", _UNKNOWN | {"permission"}, r"(security|bearer|access) token .{0,40}(expired|invalid)"),
        # How an unknown model is reported with status 400, by Mistral, OpenRouter, xAI, DeepSeek and others.
        (
            "not_found",
            _VAGUE,
            r"\b(invalid|unknown|no such) model\b(?! (param|option|config|setting|input|output|arg))"
            r"|\bnot a valid model\b|\bno models loaded\b|\bmodel identifier is invalid"
            r"|\bmodel:? (\S+ )?(is |was |does |do )?(not (found|exist)|unknown|invalid)\b",
        ),
        ("not_found", _UNKNOWN, r"\bnot found\b|try pulling it"),
        ("permission", _UNKNOWN, r"permission|forbidden|access (is )?denied|not authorized"),
        ("invalid_request", _UNKNOWN, r"^(invalid|unsupported|image|empty image|failed to download image)\b"),
        ("invalid_request", _UNKNOWN, r"does not support|not supported"),
        (
            "overloaded",
            _UNKNOWN,
            r"overload|\b(at|over|no|insufficient) capacity|capacity (is )?exceeded|\bbusy\b"
            r"|high (demand|traffic|load)|maximum pending|unavailable|(is|currently) loading|queue is full",
        ),
        ("timeout", _UNKNOWN, r"timed?.?out|deadline"),
        (
            "server",
            _UNKNOWN,
            r"try again|retry your|crashed|terminated|internal (server )?error|(system|server|network) error",
        ),
    )
)
