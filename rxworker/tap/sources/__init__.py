"""Mappers of the streams of other libraries. None of them imports the library that it reads."""

from rxworker.tap.sources.address import ag_ui_events, json_events, remote_records
from rxworker.tap.sources.ag2 import AG2, ag2_events
from rxworker.tap.sources.ag_ui import AGUI
from rxworker.tap.sources.agno import Agno
from rxworker.tap.sources.claude_agent import ClaudeAgent
from rxworker.tap.sources.claude_code import ClaudeCode
from rxworker.tap.sources.codex import Codex
from rxworker.tap.sources.langgraph import LangGraph
from rxworker.tap.sources.openai_agents import OpenAIAgents
from rxworker.tap.sources.otlp import OTLP
from rxworker.tap.sources.otlp_receiver import OTLPReceiver
from rxworker.tap.sources.pydantic_ai import PydanticAI
from rxworker.tap.sources.session_files import session_files
from rxworker.tap.sources.strands import Strands
from rxworker.tap.sources.ui_messages import UIMessages

__all__ = [
    "AG2",
    "AGUI",
    "Agno",
    "ClaudeAgent",
    "ClaudeCode",
    "Codex",
    "LangGraph",
    "OTLP",
    "OTLPReceiver",
    "OpenAIAgents",
    "PydanticAI",
    "Strands",
    "UIMessages",
    "ag2_events",
    "ag_ui_events",
    "json_events",
    "remote_records",
    "session_files",
]
