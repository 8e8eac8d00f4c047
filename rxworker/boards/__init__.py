"""Boards: streams that are derived from those of runs, and go where runs go: published streams, panels and dashboards.

`publish` gives any observable watchers, as a run has them. A `Panel` is an operator over records and the way its values
are shown. A `Dashboard` is a list of panels, and a value. A `Board` computes it over records as they come;
`Dashboard.at` computes what it showed at a moment of the past.
"""

from rxworker.boards.dashboard import Board, Dashboard
from rxworker.boards.drawing import board_text
from rxworker.boards.panel import Alert, AlertChange, Panel, PanelState, Partial, View, above, below, panel
from rxworker.boards.publish import Keep, Published, WatchItems, publish
from rxworker.boards.selection import Selection, read_selection
from rxworker.boards.stored import fold_alerts, fold_log, log_records
from rxworker.boards.webhook import Webhook
from rxworker.boards.xray import XRay, explain
from rxworker.boards.xray_count import OperatorState

__all__ = [
    "Alert",
    "AlertChange",
    "Board",
    "Dashboard",
    "Keep",
    "OperatorState",
    "Panel",
    "PanelState",
    "Partial",
    "Published",
    "Selection",
    "View",
    "WatchItems",
    "Webhook",
    "XRay",
    "above",
    "below",
    "board_text",
    "explain",
    "fold_alerts",
    "fold_log",
    "log_records",
    "panel",
    "publish",
    "read_selection",
]
