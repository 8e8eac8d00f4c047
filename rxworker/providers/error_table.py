"""What the services' errors mean: statuses, words, numbers and sentences, in one table.

`failure` alone reads it, for the bodies of answers, errors within streams and over WebSockets, and event streams. The
pages were read on 2026-11-29. A word is compared without its case, its signs, and "error" or "exception" at its end.
"""

from __future__ import annotations

import re
from typing import Final

from rxworker.events.meta import TRUNCATED

_NOT_IN_A_WORD = re.compile(r"[^a-z0-9]")


def key(word: str) -> str:
    """The form of a word in which it is compared.

    >>> key("rate_limit_error"), key("ThrottlingException"), key("RATE_LIMIT_EXCEEDED")
    ('ratelimit', 'throttling', 'ratelimitexceeded')
    """
    return _NOT_IN_A_WORD.sub("", word.lower()).removesuffix("exception").removesuffix("error")


_MINIMAX = "minimax"
# Service, kind, words. A word means the same at every service, except a number of MiniMax.
ROWS = (
    # https://platform.claude.com/docs/en/api/errors
    ("anthropic", "authentication", "authentication_error"),
    ("anthropic", "permission", "permission_error"),
    ("anthropic", "not_found", "not_found_error"),
    ("anthropic", "context_length", "request_too_large"),
    ("anthropic", "rate_limit", "rate_limit_error"),
    ("anthropic", "quota", "billing_error contract_spend_limit_reached enforced_spend_limit_reached"),
    ("anthropic", "quota", "linked_organization_billing_unavailable linked_organization_spend_limit_reached"),
    ("anthropic", "overloaded", "overloaded_error"),
    ("anthropic", "timeout", "timeout_error"),
    ("anthropic", "server", "api_error"),
    ("anthropic", "invalid_request", "invalid_request_error"),
    # https://developers.openai.com/api/docs/guides/error-codes, and `ResponseError.code` of openai 2.x
    ("openai", "authentication", "invalid_api_key unauthorized"),
    ("openai", "permission", "unsupported_country_region_territory request_forbidden bio_policy cyber_policy"),
    ("openai", "not_found", "model_not_found previous_response_not_found"),
    ("openai", "context_length", "context_length_exceeded too_many_prompt_tokens"),
    ("openai", "rate_limit", "rate_limit_exceeded too_many_requests"),
    ("openai", "quota", "insufficient_quota billing_hard_limit_reached billing_not_active credit_balance_exhausted"),
    ("openai", "overloaded", "server_is_overloaded slow_down engine_overloaded no_kv_space"),
    ("openai", "timeout", "vector_store_timeout"),
    ("openai", "server", "server_error internal_error internal_server_error"),
    # Azure: https://learn.microsoft.com/azure/foundry/openai/reference
    ("azure", "not_found", "DeploymentNotFound"),
    ("azure", "rate_limit", "RateLimitReached"),
    ("azure", "overloaded", "NoCapacity"),
    # https://ai.google.dev/gemini-api/docs/api-errors, and the reasons of google.rpc.ErrorInfo
    ("gemini", "authentication", "unauthenticated API_KEY_INVALID API_KEY_EXPIRED ACCESS_TOKEN_EXPIRED"),
    ("gemini", "permission", "permission_denied SERVICE_DISABLED CONSUMER_SUSPENDED"),
    ("gemini", "rate_limit", "resource_exhausted"),
    ("gemini", "quota", "quota_exceeded QUOTA_EXHAUSTED payment_required BILLING_DISABLED"),
    ("gemini", "overloaded", "unavailable MODEL_CAPACITY_EXHAUSTED"),
    ("gemini", "timeout", "deadline_exceeded gateway_timeout"),
    ("gemini", "server", "internal aborted"),
    ("gemini", "cancelled", "cancelled"),
    (
        "gemini",
        "invalid_request",
        "invalid_request invalid_argument failed_precondition out_of_range parameter_unknown",
    ),
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html
    ("bedrock", "authentication", "expiredTokenException invalidSignatureException unrecognizedClientException"),
    ("bedrock", "permission", "accessDeniedException"),
    ("bedrock", "not_found", "resourceNotFoundException"),
    ("bedrock", "rate_limit", "throttlingException"),
    ("bedrock", "quota", "serviceQuotaExceededException"),
    ("bedrock", "overloaded", "serviceUnavailableException modelNotReadyException"),
    ("bedrock", "timeout", "modelTimeoutException"),
    ("bedrock", "server", "internalServerException modelErrorException modelStreamErrorException"),
    ("bedrock", "invalid_request", "validationException"),
    # https://docs.z.ai/api-reference/api-code
    ("glm", "authentication", "1000 1001 1002 1003 1004"),
    ("glm", "permission", "1110 1111 1112 1121 1220 1311"),
    ("glm", "not_found", "1211 1221 1222"),
    ("glm", "context_length", "1261"),
    ("glm", "rate_limit", "1302 1303 1313"),
    ("glm", "quota", "1113 1304 1308 1309 1310"),
    ("glm", "overloaded", "1305 1312"),
    ("glm", "server", "1120 1230 1234 network_error"),
    ("glm", "invalid_request", "1210 1212 1213 1214 1215 1301"),
    # https://platform.minimax.io/docs/api-reference/errorcode: in `base_resp`, or in brackets behind the sentence
    (_MINIMAX, "authentication", "1004 2049"),
    (_MINIMAX, "permission", "2061"),
    (_MINIMAX, "rate_limit", "1002 1039 1041 2045"),
    (_MINIMAX, "quota", "1008 2056"),
    (_MINIMAX, "timeout", "1001"),
    (_MINIMAX, "server", "1000 1013 1024 1033"),
    (_MINIMAX, "invalid_request", "1026 1027 1042 2013"),
    # https://help.aliyun.com/en/model-studio/error-code
    ("qwen", "quota", "Arrearage AllocationQuota.FreeTierOnly"),
    ("qwen", "rate_limit", "limit_requests limit_burst_rate"),
    ("qwen", "timeout", "RequestTimeOut InternalError.Timeout"),
    ("qwen", "invalid_request", "InvalidParameter DataInspectionFailed"),
    # https://api-docs.deepseek.com/quick_start/error_codes, https://platform.kimi.ai/docs/api/errors
    ("deepseek", "overloaded", "insufficient_system_resource"),
    ("kimi", "authentication", "invalid_authentication_error incorrect_api_key_error"),
    ("kimi", "not_found", "resource_not_found_error"),
    ("kimi", "rate_limit", "rate_limit_reached_error"),
    ("kimi", "quota", "exceeded_current_quota_error"),
    # https://console.groq.com/docs/errors, https://inference-docs.cerebras.ai/support/error, Mistral's and Together's
    ("groq", "not_found", "model_decommissioned"),
    ("groq", "overloaded", "over_capacity capacity_exceeded"),
    ("groq", "invalid_request", "tool_use_failed"),
    ("cerebras", "authentication", "wrong_api_key"),
    ("cerebras", "rate_limit", "request_quota_exceeded token_quota_exceeded too_many_tokens_error"),
    ("cerebras", "overloaded", "queue_exceeded"),
    ("mistral", "rate_limit", "service_tier_capacity_exceeded rate_limited"),
    ("mistral", "not_found", "invalid_model"),
    ("together", "not_found", "model_not_available"),
    # Servers and gateways of one's own: llama.cpp, LiteLLM, vLLM
    ("own", "authentication", "auth_error"),
    ("own", "not_found", "unknown_model"),
    ("own", "context_length", "exceed_context_size_error"),
    ("own", "quota", "budget_exceeded"),
    ("own", "invalid_request", "bad_request not_supported_error unimplemented"),
    ("own", TRUNCATED, TRUNCATED),
)
WORDS: Final = {key(word): kind for of, kind, words in ROWS if of != _MINIMAX for word in words.split()}
MINIMAX: Final = {word: kind for of, kind, words in ROWS if of == _MINIMAX for word in words.split()}
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
        ("quota", _ANY, r"insufficient.?(balance|credits?|funds)|balance (is|was) (insufficient|too low|exhausted)"),
        (
            "quota",
            _ANY,
            r"used all available credits|(out of|no|not enough) credits|(credit|spend(ing)?) limit|\busage limits?\b",
        ),
        ("quota", _UNKNOWN, r"exceeded (your|the) .*quota|subscription|upgrade|billing"),
        ("quota", _UNKNOWN | {"permission"}, r"quota (is |was |has been )?(reached|exceeded|exhausted)"),
        ("rate_limit", _VAGUE, r"(tokens?|requests?) per (second|min|minute|hour|day)\b|too many requests"),
        ("rate_limit", _VAGUE, r"rate.?limit(ed)? (reached|exceeded)|too many tokens.{0,3}please wait"),
        ("rate_limit", _UNKNOWN, r"rate.?limit|throttl"),
        (
            "context_length",
            _VAGUE | {"server"},
            r"context.?(length|window|size|limit)|maximum context|context the overflow",
        ),
        (
            "context_length",
            _VAGUE | {"server"},
            r"(prompt|inputs?|messages?|request|conversation) (is |are |was )?too (long|large)\b|too many .{0,16}tokens"
            r"|exceed\w* (?!deadline).{0,60}\bcontext\b|\bcontext (?!deadline).{0,60}\bexceed",
        ),
        (
            "context_length",
            _VAGUE | {"server"},
            r"token count is \d+|(token count|(?<!_)tokens) .{0,60}exceeds? the (maximum|limit|model|configured)"
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
        ("overloaded", _UNKNOWN, r"overload|\b(at|over|no|insufficient) capacity|capacity (is )?exceeded|\bbusy\b"),
        (
            "overloaded",
            _UNKNOWN,
            r"high (demand|traffic|load)|maximum pending|unavailable|(is|currently) loading|queue is full",
        ),
        ("timeout", _UNKNOWN, r"timed?.?out|deadline"),
        (
            "server",
            _UNKNOWN,
            r"try again|retry your|crashed|terminated|internal (server )?error|(system|server|network) error",
        ),
    )
)
