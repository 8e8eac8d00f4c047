"""AG-UI, the protocol of agents and user interfaces: records to its events, its input to messages."""

from rxworker.protocols.ag_ui.encode import AgUiEncoder, ag_ui_stream
from rxworker.protocols.ag_ui.read import read_run_input

__all__ = ["AgUiEncoder", "ag_ui_stream", "read_run_input"]
