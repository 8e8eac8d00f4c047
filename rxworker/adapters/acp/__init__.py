"""Workers as agents in editors such as Zed, through the Agent Client Protocol."""

from rxworker.adapters.acp.agent import AcpAgent, serve_acp

__all__ = ["AcpAgent", "serve_acp"]
