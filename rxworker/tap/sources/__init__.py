"""Mappers of the streams of other libraries. None of them imports the library that it reads."""

from rxworker.tap.sources.langgraph import LangGraph
from rxworker.tap.sources.openai_agents import OpenAIAgents
from rxworker.tap.sources.pydantic_ai import PydanticAI

__all__ = ["LangGraph", "OpenAIAgents", "PydanticAI"]
