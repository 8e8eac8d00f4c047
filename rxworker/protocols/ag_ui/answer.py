"""What a client answers to an interrupt, as a decision."""

from __future__ import annotations

import msgspec

from rxworker.errors import LocalProtocolError
from rxworker.messages import JsonObject, Message
from rxworker.messages.lenient_json import encode_lenient
from rxworker.protocols.common.interrupts import Reply, split_interrupt
from rxworker.worker import Answer, Approve, Decision, Deny

HOW = 'send {"approved": true}, with "editedArgs" for other arguments, or {"approved": false, "reason": "why"}'


class _Payload(msgspec.Struct, frozen=True, rename="camel"):
    approved: bool
    edited_args: JsonObject | None = None
    reason: str | None = None


def reply_of(name: str, status: str, payload: object) -> Reply:
    """The answer to one interrupt.

    Args:
        name: The interrupt's id.
        status: ``resolved`` or ``cancelled``.
        payload: What was answered. For a call: a yes or no, an object that says whether it is approved, or a text, which is then the
            call's result. At the end of a turn: what to tell the model.

    Raises:
        LocalProtocolError: It cannot be read; the message shows how it is done.

    >>> reply_of("run-1:call_1", "resolved", {"approved": False, "reason": "too dear"}).decision
    Deny(reason='too dear')
    """
    run, call_id = split_interrupt(name)
    if status not in ("resolved", "cancelled"):
        message = f"an answer has the status {status!r}: it must be 'resolved' or 'cancelled'"
        raise LocalProtocolError(message)
    if not call_id:
        return Reply(run, message=None if status == "cancelled" else _message(payload))
    if status == "cancelled":
        return Reply(run, call_id, Deny("The user did not want to decide."))
    return Reply(run, call_id, _decision(payload))


def _decision(payload: object) -> Decision:
    if payload is None:
        raise LocalProtocolError(f"an answer has no payload: {HOW}")
    if isinstance(payload, bool):
        return Approve() if payload else Deny()
    if isinstance(payload, str):
        return Answer(payload)
    try:
        read = msgspec.convert(payload, _Payload)
    except msgspec.ValidationError as error:
        raise LocalProtocolError(f"an answer cannot be read: {error}; {HOW}") from error
    if read.approved:
        return Approve(read.edited_args)
    return Deny() if read.reason is None else Deny(read.reason)


def _message(payload: object) -> Message | None:
    if payload is None or payload == "":
        return None
    return Message.user(payload if isinstance(payload, str) else encode_lenient(payload).decode())  # pyright: ignore[reportArgumentType] - it came as JSON


__all__ = ["reply_of"]
