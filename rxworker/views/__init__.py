"""Views of a run for people: the changes that its records make, for protocols and for programs that draw."""

from rxworker.views.changes import (
    ArgumentValue,
    BlockClose,
    BlockExtra,
    BlockGrow,
    BlockOpen,
    BlockWhole,
    CallOffer,
    CallProgress,
    CallResult,
    CallStart,
    Change,
    Note,
    Retract,
    Scope,
    ScopeClose,
    ScopeOpen,
    ShownBlock,
    StepClose,
    StepOpen,
    ViewAbort,
    ViewBegin,
    ViewCut,
    ViewFinish,
    ViewPause,
    WaitingCall,
)
from rxworker.views.html import view_html
from rxworker.views.run_view import (
    AttemptView,
    BlockView,
    CallView,
    ItemStage,
    NoteView,
    RunView,
    ViewItem,
    ViewStep,
)
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
    "ItemStage",
    # a run as HTML
    "view_html",
    # a response in one value
    "Summary",
    "CalledTool",
    "summarise",
    # from records to changes
    "Tracker",
    # the changes, and what they are about
    "ViewAbort",
    "ArgumentValue",
    "ViewBegin",
    "BlockClose",
    "BlockExtra",
    "BlockGrow",
    "BlockOpen",
    "BlockWhole",
    "CallOffer",
    "CallProgress",
    "CallResult",
    "CallStart",
    "Change",
    "ViewCut",
    "ViewFinish",
    "Note",
    "ViewPause",
    "Retract",
    "Scope",
    "ScopeClose",
    "ScopeOpen",
    "ShownBlock",
    "StepClose",
    "StepOpen",
    "WaitingCall",
]
