"""Views of a run that users look at: the changes that its records make, for protocols and for programs that draw."""

from rxworker.views.html import view_html
from rxworker.views.run_view import AttemptView, BlockView, CallView, NoteView, RunView, ViewItem, ViewStep
from rxworker.views.summary import CalledTool, Summary, summarise
from rxworker.views.tracker import Tracker

__all__ = [
    # a run as it is shown
    "RunView",
    "ViewStep",
    "ViewItem",
    "BlockView",
    "CallView",
    "NoteView",
    "AttemptView",
    # a run as HTML
    "view_html",
    # a response in one value
    "Summary",
    "CalledTool",
    "summarise",
    # from records to changes
    "Tracker",
    # the changes, and what they are about
]
