"""The Agent Client Protocol, which editors speak: records to its updates, its prompts to messages.

`rxworker.adapters.acp` serves it.
"""

from rxworker.protocols.acp.encode import AcpEncoder, read_prompt

__all__ = ["AcpEncoder", "read_prompt"]
