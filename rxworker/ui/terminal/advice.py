"""What went wrong, and what to do about it."""

from __future__ import annotations

from rxworker.errors import (
    ConfigurationError,
    HookError,
    LimitExceededError,
    ProviderError,
    RunAbortedError,
    RxWorkerError,
    TransportError,
)

KINDS = {
    "authentication": ("The key was refused", "Check the key, then say it again."),
    "permission": ("This is not allowed", "Ask whoever owns the key, or use another model."),
    "not_found": ("There is no such model or address", "Check the model's name and the address."),
    "invalid_request": ("The request was refused", "Say it in another way."),
    "context_length": (
        "The conversation is too long for this model",
        "Begin a new conversation, or use a model that reads more.",
    ),
    "rate_limit": ("Too many requests", "Wait a moment, then say it again."),
    "quota": ("The account is used up", "See to the account, then say it again."),
    "overloaded": ("The model is overloaded", "Wait a moment, then say it again."),
    "timeout": ("The model took too long", "Say it again."),
    "server": ("The model's server failed", "Say it again."),
}
KEPT = "The conversation is kept."


def advise(error: BaseException, line: str) -> tuple[str, str]:
    r"""A title, and the words below it.

    Args:
        error: What ended the run.
        line: What it says, in one line.

    >>> advise(ProviderError("no", kind="rate_limit", retry_after=20.0), "slow down")[1]
    'slow down\nWait 20 s, then say it again. The conversation is kept.'
    """
    title, todo = _advice(error)
    if isinstance(error, RxWorkerError) and error.retry_after:
        todo = todo.replace("Wait a moment", f"Wait {error.retry_after:.0f} s")
    request = getattr(error, "request_id", None)
    told = f"{line} (request {request})" if request and str(request) not in line else line
    return title, f"{told}\n{todo} {KEPT}".replace("\n ", "\n")


def _advice(error: BaseException) -> tuple[str, str]:
    match error:
        case ProviderError(kind=kind) if kind in KINDS:
            return KINDS[kind]
        case ConfigurationError():
            return "Something is missing", "Leave, set it, and come again."
        case TransportError():
            return "No connection", "Check the address and the network, then say it again."
        case LimitExceededError(limit=limit):
            return (
                "A limit was reached",
                f"Go on by saying so, or give the worker a higher {limit}.",
            )
        case HookError(hook=hook):
            return f"The hook {hook} failed", "Mend it, or take it out."
        case RunAbortedError():
            return "A hook ended the run", "Say it in another way."
        case _ if getattr(error, "retryable", False):
            return "It did not work", "Say it again."
        case _:
            return "It did not work", ""


__all__ = ["advise"]
