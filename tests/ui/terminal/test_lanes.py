from msgspec.structs import replace

from rxworker.events import (
    AttemptRetract,
    AttemptStart,
    BlockAbort,
    BlockStart,
    BlockStop,
    BlockType,
    CitationDelta,
    Event,
    Gap,
    HookMessage,
    HookVerdict,
    InputJsonDelta,
    InputValueDelta,
    MessageAdd,
    Opaque,
    PausedCall,
    PauseState,
    Record,
    ResponseStatus,
    RunAbort,
    RunPause,
    RunResume,
    RunStart,
    RunStop,
    Status,
    TextDelta,
    ThinkingDelta,
    ToolProgress,
    ToolStart,
    ToolStop,
    ToolUseMetadata,
    WatcherDetach,
)
from rxworker.events.block import OpaqueMetadata, ToolResultMetadata
from rxworker.messages import Conversation, Document, Image, Message, Text, ToolCall, ToolResult
from rxworker.ui.terminal.lanes import Lane, Lanes
from rxworker.views import NoteView

CALL = ToolCall("c1", "look", {"at": "a"})
ASK = PauseState("ask", (PausedCall(0, CALL),), (0,))
STARTED = Status(ResponseStatus.STARTED)


class Fold:
    """Lanes in the order in which they appear."""

    def __init__(self) -> None:
        self.lanes: list[Lane] = []
        self._fold = Lanes()
        self._seq = 0

    def feed(self, *events: Event, path: tuple[str, ...] = ()) -> list[Lane]:
        records: list[Record] = []
        for event in events:
            self._seq += 1
            records.append(Record(self._seq, "r", 1, 1, 100.0 + self._seq, event, path))
        changed = self._fold.feed(records)
        self.lanes += [lane for lane in changed if lane not in self.lanes]
        return changed

    def told(self) -> list[tuple[str, str, str]]:
        return [(lane.kind, lane.item.stage, lane.text or lane.title) for lane in self.lanes]


def called() -> list[Event]:
    block = BlockType.TOOL_USE
    start = BlockStart(0, block, ToolUseMetadata("c1", "look"))
    return [start, InputJsonDelta(0, '{"at":'), InputJsonDelta(0, '"a"}'), BlockStop(0, block)]


def test_a_block_is_a_lane_and_only_what_changed_is_returned() -> None:
    fold = Fold()
    fold.feed(BlockStart(0, BlockType.THINKING), ThinkingDelta(0, "Hm."))
    fold.feed(BlockStop(0, BlockType.THINKING))
    changed = fold.feed(BlockStart(1, BlockType.TEXT), TextDelta(1, "Hel"), TextDelta(1, "lo"))
    assert [lane.kind for lane in changed] == ["text"]
    assert fold.told() == [("thinking", "done", "Hm."), ("text", "open", "Hello")]


def test_a_delta_without_a_start_opens_its_block() -> None:
    fold = Fold()
    fold.feed(ThinkingDelta(3, "Hm."), TextDelta(4, "Hello"))
    assert [kind for kind, _, _ in fold.told()] == ["thinking", "text"]


def test_a_call_that_only_its_stop_names_appears_with_its_stop() -> None:
    fold = Fold()
    block = BlockType.TOOL_USE
    fold.feed(AttemptStart(), InputJsonDelta(0, '{"at":'), InputJsonDelta(0, '"a"}'))
    fold.feed(BlockStop(0, block, metadata=ToolUseMetadata("c1", "look")))
    assert fold.told() == [("call", "waiting", '{"at":"a"}')]
    fold.feed(ToolStart(CALL), ToolStop(ToolResult("c1", "rain", name="look"), 0.5))
    (lane,) = fold.lanes
    assert (lane.title, lane.arguments, lane.item.stage) == ("look", 'at="a"', "done")


def test_a_call_whose_arguments_were_missed_appears_when_it_runs() -> None:
    fold = Fold()
    fold.feed(InputValueDelta(0, "$.at", "under"))
    assert fold.told() == []
    fold.feed(ToolStart(CALL))
    assert fold.told() == [("call", "running", '{"at":"a"}')]


def test_a_provider_call_that_only_its_stop_names_is_not_run_here() -> None:
    fold = Fold()
    block = BlockType.SERVER_TOOL_USE
    stop = BlockStop(0, block, metadata=ToolUseMetadata("s1", "find"))
    fold.feed(AttemptStart(), InputJsonDelta(0, "{}"), stop)
    assert [(lane.title, lane.item.stage) for lane in fold.lanes] == [("find", "done")]


def test_further_choices_are_marked() -> None:
    fold = Fold()
    fold.feed(
        BlockStart(0, BlockType.TEXT),
        BlockStart(1, BlockType.TEXT, choice=1),
        TextDelta(0, "One"),
        TextDelta(1, "Two", choice=1),
        TextDelta(2, "Three", choice=2),
        ThinkingDelta(3, "Hm", choice=1),
    )
    assert [lane.choice_label for lane in fold.lanes] == ["", "Choice 2", "Choice 3", "Choice 2"]


def test_a_call_of_a_further_choice_is_not_run() -> None:
    fold = Fold()
    block = BlockType.TOOL_USE
    fold.feed(*called(), BlockStart(1, block, ToolUseMetadata("c2", "look"), choice=1))
    fold.feed(InputJsonDelta(1, "{}"), BlockStop(1, block))
    assert [(lane.item.stage, lane.choice_label) for lane in fold.lanes] == [("waiting", ""), ("refused", "Choice 2")]


def test_a_call_goes_from_its_arguments_to_its_result_in_one_lane() -> None:
    fold = Fold()
    stages: list[str] = []
    for events in (called(), [ToolStart(CALL)], [ToolProgress("c1", "half")]):
        fold.feed(*events)
        stages.append(fold.lanes[0].item.stage)
    fold.feed(ToolStop(ToolResult("c1", "rain", name="look"), 0.5))
    (lane,) = fold.lanes
    assert stages == ["waiting", "running", "running"]
    assert (lane.title, lane.text, lane.arguments) == ("look", '{"at":"a"}', 'at="a"')
    assert (lane.item.stage, lane.progress, lane.reports) == ("done", "half", 1)
    assert (lane.result, lane.call.seconds) == ("rain", 0.5)


def test_arguments_that_come_by_their_path_are_shown_too() -> None:
    fold = Fold()
    start = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c1", "look"))
    fold.feed(start, InputValueDelta(0, "$.at", "un"), InputValueDelta(0, "$.at", "der", True))
    assert fold.lanes[0].text == "$.at under"


def test_a_failed_call_and_one_that_never_ran_differ() -> None:
    fold = Fold()
    fold.feed(*called(), ToolStart(CALL), ToolStop(ToolResult("c1", "oh", True, "look")))
    fold.feed(*called(), ToolStop(ToolResult("c1", "no", True, "look")))
    assert [lane.item.stage for lane in fold.lanes] == ["failed", "refused"]


def test_an_attempt_that_is_retracted_is_marked_with_all_that_is_inside_it() -> None:
    fold = Fold()
    fold.feed(AttemptStart(), STARTED, *called(), ToolStart(CALL))
    fold.feed(TextDelta(0, "inner"), path=("c1",))
    fold.feed(AttemptRetract("overloaded", 3.0), AttemptStart(), TextDelta(0, "Again"))
    assert fold.told() == [
        ("call", "retracted", '{"at":"a"}'),
        ("text", "retracted", "inner"),
        ("note", "done", "overloaded; retrying in 3 s"),
        ("text", "open", "Again"),
    ]
    assert len(fold.lanes[1].path) == 1


def test_a_response_that_starts_for_a_second_time_retracts_the_first() -> None:
    fold = Fold()
    fold.feed(AttemptStart(), STARTED, TextDelta(0, "Half"), STARTED, TextDelta(0, "Whole"))
    assert fold.told() == [("text", "retracted", "Half"), ("text", "open", "Whole")]


def test_what_is_open_when_the_run_ends_is_stopped() -> None:
    fold = Fold()
    fold.feed(AttemptStart(), TextDelta(0, "Half"), TextDelta(1, "cut"))
    fold.feed(BlockAbort(1, BlockType.TEXT), RunAbort("cancel", "the run was cancelled: by you"))
    assert fold.told() == [("text", "stopped", "Half"), ("text", "stopped", "cut"), ("note", "done", "by you")]


def test_a_call_of_a_paused_run_goes_on_in_its_lane() -> None:
    fold = Fold()
    conversation = Conversation((Message.user("Hi"),))
    fold.feed(RunStart(conversation), AttemptStart(), *called())
    fold.feed(RunPause(replace(ASK, reason="Really?")))
    assert fold.told()[1:] == [("call", "waiting", '{"at":"a"}'), ("pause", "waiting", "ask: Really?")]
    fold.feed(RunResume(conversation, ASK), ToolStart(CALL))
    fold.feed(ToolStop(ToolResult("c1", "rain", name="look")), RunStop())
    assert [stage for _, stage, _ in fold.told()] == ["done", "done", "done"]


def test_a_new_run_after_a_pause_leaves_nothing_waiting() -> None:
    fold = Fold()
    fold.feed(AttemptStart(), *called(), RunPause(ASK))
    fold.feed(RunStart(Conversation((Message.user("Never mind"),))))
    assert fold.told() == [("call", "refused", '{"at":"a"}'), ("pause", "done", "ask"), ("user", "done", "Never mind")]


def test_of_a_run_that_begins_only_the_last_message_is_new() -> None:
    fold = Fold()
    fold.feed(RunStart(Conversation((Message.user("failed before"), Message.user("Hi")))))
    assert fold.told() == [("user", "done", "Hi")]


def test_messages_and_verdicts_of_hooks_and_messages_of_users_are_noted() -> None:
    fold = Fold()
    fold.feed(
        HookMessage("clock", "debug", "late", {"at": 5}),
        HookVerdict("guard", "before_tool_call", "Skip", "too dangerous", "c1"),
        HookVerdict("guard", "on_message_send", "Cancel", "a password"),
        HookVerdict("ask", "before_tool_call", "Pause"),
        MessageAdd((Message.user("git says"),), "git_status"),
        MessageAdd((Message.user("Faster!"),), "send"),
        MessageAdd((Message.user("result"),), "tools"),
        WatcherDetach("page", "OSError: gone"),
        Gap(3, 9),
    )
    assert [(lane.kind, lane.title, lane.text) for lane in fold.lanes] == [
        ("note", "clock", 'late {"at":5}'),
        ("note", "guard", "Skip at before_tool_call"),  # the lane of the call shows the reason as its result
        ("note", "guard", "Cancel at on_message_send: a password"),
        ("note", "git_status to the model", "git says"),
        ("user", "", "Faster!"),
        ("note", "watcher", "page failed and was detached: OSError: gone"),
        ("note", "gap", "records 3 to 9 were too many for this view"),
    ]


def test_everything_in_a_lane_is_clean() -> None:
    fold = Fold()
    start = BlockStart(0, BlockType.TOOL_USE, ToolUseMetadata("c1", "lo\x1bok"))
    fold.feed(start, InputJsonDelta(0, "\x1b["), BlockStop(0, BlockType.TOOL_USE))
    fold.feed(ToolStop(ToolResult("c1", "\x1b[2J\ud83d", name="look")), TextDelta(1, "\x9b"))
    fold.feed(HookMessage("h\x07", "message", "\x1b]0;x\x07"))
    for lane in fold.lanes:
        told = lane.title + lane.text + lane.arguments
        if lane.kind == "call":
            told += lane.result or ""
        assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 for c in told)


def test_nothing_is_remembered_of_what_is_over() -> None:
    lanes, fold = Lanes(), Fold()
    fold._fold = lanes
    for _ in range(50):
        fold.feed(AttemptStart(), STARTED, *called(), ToolStart(CALL))
        fold.feed(ToolStop(ToolResult("c1", "rain")), TextDelta(1, "x"), BlockStop(1, BlockType.TEXT))
    fold.feed(RunStop())
    assert len(lanes._shown) <= 3


def test_the_sources_of_a_text_are_kept_with_it() -> None:
    fold = Fold()
    web = {"type": "url_citation", "url": "https://a.org", "title": "A"}
    fold.feed(TextDelta(0, "So it is."), CitationDelta(0, dict(web)), CitationDelta(0, dict(web)))
    fold.feed(CitationDelta(0, {"type": "char_location", "cited_text": "Frogs\x1b hop."}))
    assert fold.lanes[0].sources == ["A, https://a.org", '"Frogs␛ hop."']


def test_sources_of_a_text_without_an_end_are_limited() -> None:
    fold = Fold()
    fold.feed(*(CitationDelta(0, {"url": f"https://a.org/{number}"}) for number in range(200)))
    assert len(fold.lanes[0].sources) == 50


def test_what_is_not_known_is_reported_once_and_counted() -> None:
    fold = Fold()
    fold.feed(*(Opaque("logprobs", {"at": number}) for number in range(20)), Opaque("other"))
    told = [(lane.kind, lane.title, lane.text) for lane in fold.lanes]
    assert told == [("note", "unknown: logprobs", '{"at":0}'), ("note", "unknown: other", "")]
    assert [lane.item.times for lane in fold.lanes if isinstance(lane.item, NoteView)] == [20, 1]


def test_blocks_that_are_not_text_are_shown_by_a_title() -> None:
    fold = Fold()
    image, opaque = BlockType.IMAGE, BlockType.OPAQUE
    fold.feed(
        BlockStart(0, image),
        BlockStop(0, image),
        BlockStart(1, opaque, OpaqueMetadata("hologram")),
        BlockStop(1, opaque),
    )
    assert [(lane.kind, lane.title, lane.text) for lane in fold.lanes] == [
        ("note", "an image", ""),
        ("note", "unknown content", "hologram"),
    ]


def test_the_result_of_a_provider_is_shown_with_its_call() -> None:
    fold = Fold()
    use, result = BlockType.SERVER_TOOL_USE, BlockType.SERVER_TOOL_RESULT
    fold.feed(BlockStart(0, use, ToolUseMetadata("s1", "search")), BlockStop(0, use))
    fold.feed(BlockStart(1, result, ToolResultMetadata("s1"), {"found": 1}), BlockStop(1, result))
    (lane,) = fold.lanes
    assert (lane.title, lane.result) == ("search", '{"found":1}')


def test_pictures_and_documents_of_users_and_tools_are_named() -> None:
    fold = Fold()
    picture = Image("image/png", data="AAAA")
    fold.feed(RunStart(Conversation((Message.user("Look:", picture, Document(title="R")),))))
    fold.feed(*called(), ToolStart(CALL), ToolStop(ToolResult("c1", (Text("Here:"), picture))))
    said, called_lane = fold.lanes
    assert said.text == "Look:\n[picture, image/png, 3 B]\n[document R, application/pdf]"
    assert called_lane.result == "Here:\n[picture, image/png, 3 B]"
