"""What the protocols for user interfaces share: well-formed changes made of records, and what clients answer."""

from rxworker.protocols.common.interrupts import Reply, decisions_of

__all__ = ["Reply", "decisions_of"]
