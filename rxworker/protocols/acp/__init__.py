"""The Agent Client Protocol, which editors speak: records to its updates, its prompts to messages. `rxworker.adapters.acp` serves it."""

from rxworker.protocols.acp.calls import call_fields
from rxworker.protocols.acp.content import read_prompt
from rxworker.protocols.acp.encode import AcpEncoder
from rxworker.protocols.acp.wire import PROTOCOL_VERSION, Update

__all__ = ["PROTOCOL_VERSION", "AcpEncoder", "Update", "call_fields", "read_prompt"]
