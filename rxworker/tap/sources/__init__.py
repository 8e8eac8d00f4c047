"""Mappers of the streams of other libraries. None of them imports the library that it reads."""

from rxworker.tap.sources.agno import Agno
from rxworker.tap.sources.claude_code import ClaudeCode
from rxworker.tap.sources.codex import Codex
from rxworker.tap.sources.langgraph import LangGraph
from rxworker.tap.sources.openai_agents import OpenAIAgents
from rxworker.tap.sources.pydantic_ai import PydanticAI
from rxworker.tap.sources.session_files import session_files

__all__ = ["Agno", "ClaudeCode", "Codex", "LangGraph", "OpenAIAgents", "PydanticAI", "session_files"]
