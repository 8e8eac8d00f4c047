"""Workers as agents in editors such as Zed, through the Agent Client Protocol."""

from rxworker.adapters.acp.agent import AcpAgent, serve_acp
from rxworker.adapters.acp.peer import Lines

__all__ = ["AcpAgent", "Lines", "serve_acp"]
