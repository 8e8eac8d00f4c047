"""The finish reasons of all protocols in one table.

Compatible servers and proxies send the words of other protocols than the one that they speak, in upper or lower case. A
word that reports a cut response must therefore be known to every decoder: the calls of such a response never run.
"""

from __future__ import annotations

from rxworker.messages import StopKind, StopReason

END_TURN, TOOL_USE, OTHER = StopKind.END_TURN, StopKind.TOOL_USE, StopKind.OTHER
MAX_TOKENS, CONTENT_FILTER, MALFORMED = StopKind.MAX_TOKENS, StopKind.CONTENT_FILTER, StopKind.MALFORMED
INCOMPLETE = StopKind.INCOMPLETE

# Kind, words in lower case.
ROWS = (
    (END_TURN, "stop end_turn eos eos_token complete completed"),
    (END_TURN, "load"),  # Ollama, of a request without messages
    (TOOL_USE, "tool_use tool_call tool_calls function_call"),
    (StopKind.STOP_SEQUENCE, "stop_sequence"),
    (StopKind.PAUSE_TURN, "pause_turn compaction"),
    (StopKind.REFUSAL, "refusal"),
    (MAX_TOKENS, "length max_length max_tokens max_output_tokens max_completion_tokens model_length error_limit"),
    (MAX_TOKENS, "model_context_window_exceeded context_length_exceeded"),
    (CONTENT_FILTER, "content_filter content_filtered guardrail_intervened safety recitation blocklist"),
    (CONTENT_FILTER, "prohibited_content spii language image_safety image_prohibited_content image_recitation"),
    (CONTENT_FILTER, "model_armor escalation error_toxic sensitive"),
    (MALFORMED, "malformed_function_call malformed_model_output malformed_tool_use malformed_response error"),
    (MALFORMED, "unexpected_tool_call too_many_tool_calls missing_thought_signature"),
    # What ends a response before its time, and has no normal form of its own.
    (INCOMPLETE, "other image_other no_image pup_limited_disabled continuation incomplete abort cancelled user_cancel"),
    (INCOMPLETE, "timeout unload network_error insufficient_system_resource"),
)
KINDS = {word: kind for kind, words in ROWS for word in words.split()}
NORMAL = (END_TURN, TOOL_USE)
CUT = (MAX_TOKENS, CONTENT_FILTER, MALFORMED)


def known_kind(raw: str) -> StopKind | None:
    """The normal form of a word; ``None`` where it is not known.

    >>> known_kind("MAX_TOKENS"), known_kind("brand_new")
    (<StopKind.MAX_TOKENS: 'MaxTokens'>, None)
    """
    return KINDS.get(raw.lower())


def stop_kind(raw: str, *, called: bool, malformed: bool = False) -> StopKind:
    """Why a response ended.

    An unknown word does not invalidate the calls of the response.

    Args:
        raw: The finish reason.
        called: Whether the response has a whole call of a client's tool.
        malformed: Whether it has a call that cannot run, for example one that names no tool.

    >>> stop_kind("STOP", called=True), stop_kind("brand_new", called=True)
    (<StopKind.TOOL_USE: 'ToolUse'>, <StopKind.TOOL_USE: 'ToolUse'>)
    >>> stop_kind("tool_calls", called=False), stop_kind("brand_new", called=False)
    (<StopKind.MALFORMED: 'Malformed'>, <StopKind.OTHER: 'Other'>)
    """
    kind = known_kind(raw)
    if kind is not None and kind not in NORMAL:
        return kind
    if called:
        return TOOL_USE
    if malformed or kind is TOOL_USE:
        return MALFORMED
    return kind or OTHER


def read_stop(raw: str | None, called: bool, malformed: bool, detail: str | None = None) -> StopReason | None:
    """The normal form of a finish reason, if it has come; see `stop_kind`.

    >>> read_stop("length", False, False)
    StopReason(kind=<StopKind.MAX_TOKENS: 'MaxTokens'>, raw='length', detail=None)
    """
    return None if raw is None else StopReason(stop_kind(raw, called=called, malformed=malformed), raw, detail)


def keeps_calls(raw: str | None) -> bool:
    """Whether whole calls that came before a finish reason may run; ``None``: it has not come.

    >>> keeps_calls("brand_new"), keeps_calls("length")
    (True, False)
    """
    return raw is None or known_kind(raw) in (None, *NORMAL)
