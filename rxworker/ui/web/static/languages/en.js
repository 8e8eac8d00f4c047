// The words of the page in English. A translation is a file beside this one with the same names, and a row in `model/language.js`.
//
// A text in which a number decides has the forms of `Intl.PluralRules`: `one` and `other` in English. `{n}` is that number, other names in braces are values.

export const words = {
  app: {
    skipToMessage: "Skip to the message box", skipToDecision: "Skip to the decision", runs: "Runs", allRuns: "All runs",
    lightColours: "Use light colours", darkColours: "Use dark colours",
  },
  link: {
    connecting: "Connecting", open: "Connected", lost: "Reconnecting",
    lostBanner: "The connection was lost. Trying again; nothing will be missed.",
    restarted: "The server was restarted. What is shown stays readable, and a new run can be started.",
    restartedGone: "The server was restarted. Gone: {runs}. What is shown stays readable, and a new run can be started.",
    more: "{runs} and {n} more",
    gone: "This run is gone: the server does not know it any more. What is shown stays readable, and a new one can be started.",
    token: "The server wants its token now: open this page once with ?token= and the token behind its address.",
    refused: "The server refused.", unreachable: "The server cannot be reached. Nothing was sent.", answered: "The server answered {status}.",
  },
  runs: {
    title: "Runs", start: "New run", none: "No runs yet. Ask something, and it appears here.", untitled: "(no text)", older: "Show older runs ({n})",
  },
  welcome: {
    title: "What should it do?", text: "Every run appears here as it happens: what the model thinks, says and calls, each in its own lane.",
    goneTitle: "This run is gone", goneText: "The server does not know it any more: it was dropped, or the server was restarted. Ask again below.",
    look: "Or look at one of the newest runs", can: "It may call", workerCan: "The {worker} may call", more: "and {n} more", link: "{title} ({status})",
  },
  run: {
    title: "Run", control: "Control this run", cancel: "Cancel", cancelNow: "Cancel now", afterTurn: "After this turn", keep: "Keep running",
    pause: "Pause", pausing: "Pausing…", openResumed: "Open the resumed run",
    turns: { one: "{n} turn", other: "{n} turns" }, calls: { one: "{n} call", other: "{n} calls" }, tokens: "{n} tokens", cost: "cost {cost}",
    pausedTitle: "Paused: {title}", isNow: "The run is {status}.", hasFailed: "The run has failed.",
  },
  status: { new: "starting", cancel: "cancelled", error: "failed", limit: "stopped", running: "running", paused: "paused", finished: "finished", aborted: "aborted", gone: "gone", queued: "queued", recovering: "recovering" },
  time: {
    title: "Time", play: "Play", stop: "Stop playing", slider: "Moment of the run", speed: "Speed", live: "Live", end: "End", fork: "Fork", forkHere: "from here",
    forkLabel: "Fork from here", record: "record {seq}", at: "{at}, {record}", atPresent: "{at}, {record}, the present",
  },
  views: { title: "What to show", conversation: "Conversation", timeline: "Timeline", numbers: "Numbers" },
  talk: {
    title: "Conversation", latest: "Go to the latest",
    earlier: { one: "Show what came before ({n} entry)", other: "Show what came before ({n} entries)" },
    you: "You", instructions: "Instructions", model: "Model", intoRun: "You, into the run", addedBy: "Added by {source}", task: "Task",
    thinking: "Thinking", refusal: "Refusal", result: "Result", image: "Image", other: "Other", answer: "Answer",
    cutOff: "Cut off here", retracted: "{label}, retracted", choice: "Choice {n}", took: "{label} · {seconds}",
    table: "Table", showImage: "Show the image: {alt}", openImage: "Open the image at {host}: {alt}",
  },
  attach: { title: "Attached", add: "Attach a file", document: "Document", remove: "Remove {name}", large: "{name} is larger than 5 MB.", unreadable: "{name} cannot be read." },
  message: { edit: "Edit", again: "Answer again", save: "Send", cancel: "Cancel", editing: "Edit the message", actions: "Actions" },
  code: { title: "Code", wrap: "Wrap", copy: "Copy", copied: "Copied", notCopied: "Not allowed" },
  call: {
    tool: "tool", arguments: "Arguments", result: "Result", changed: "changed: ", in: "{word} in {seconds}", retracted: "retracted",
    verdict: "{verdict} by {hook}", verdictWhy: "{verdict} by {hook}: {reason}",
    writing: "being written", waiting: "waiting", running: "running", paused: "waiting for you", done: "done", failed: "failed",
    skipped: "not run", stopped: "stopped", cut: "cut off", "not run": "not run", provider: "run by the provider",
  },
  result: {
    kind: "Show as", text: "Text", json: "Tree", table: "Table", diff: "Changes", image: "Images", tree: "Result as a tree", showAll: "Show all", find: "Find in the result",
    foundAt: "{at} of {n}", foundNone: "not found", characters: { one: "{n} character", other: "{n} characters" }, rows: { one: "{n} row", other: "{n} rows" },
    items: { one: "{n} item", other: "{n} items" }, fields: { one: "{n} field", other: "{n} fields" }, more: { one: "Show {n} more", other: "Show {n} more" },
  },
  queue: { title: "Sent, and not read by the model yet", unread: "The run ended before the model read this. Send it again if it still holds.", unreadSpoken: "The run ended before the model read your message. It is back in the message box." },
  composer: {
    message: "Message", worker: "Worker", send: "Send", sendIn: "Send in", start: "Start", newRun: "A new run", next: "Continue this conversation", into: "Into the running run",
    ask: "Ask something", sendHint: "Send a message", sendInHint: "Send a message to the run",
  },
  approval: {
    title: "A decision is needed", mayCall: "May it call {name}?", withText: "With this text", withJsonText: "With this text, written as JSON", withArguments: "With these arguments",
    reason: "Reason for the model", reasonHint: "Reason for the model (optional)", approve: "Approve", approveChanged: "Approve with changes", deny: "Deny", resume: "Resume",
    alsoWaiting: "Also waiting: {calls}", paused: "The run is paused", next: "Next: {calls}", by: "by {hook}",
    badJson: "This is no valid JSON: {problem}", notText: "this is a text: \"…\"", notObject: "arguments are an object: {…}",
  },
  lanes: {
    title: "Timeline", none: "Blocks and tools appear here as lanes.", cut: "earlier runs are no longer kept", last: "the last {shown} of {n}",
    paused: "Paused for {seconds}", pausedWhy: "Paused for {seconds}: {reason}",
    text: "answer", thinking: "thinking", refusal: "refusal", tool_result: "result", image: "image",
    characters: { one: "{n} character", other: "{n} characters" }, charactersCut: { one: "{n} character, cut off", other: "{n} characters, cut off" },
  },
  trace: {
    zoom: "Zoom", in: "Zoom in", out: "Zoom out", fit: "Fit", turn: "Turn {n}", response: "request", attempt: "attempt {n}", first: "first after {seconds}", retracted: "retracted: {reason}",
    close: "Close", from: "Begins", took: "Takes", firstBlock: "First block", state: "State", inTurn: "Turn", model: "Model", tokens: "Tokens", cost: "Cost", size: "Size",
    events: { one: "{n} raw event", other: "{n} raw events" }, more: "and {n} more", notices: "Notices", show: "Show in the conversation",
  },
  watchers: {
    title: "Watching", none: "No watcher is attached yet.", gone: "The server does not know this run any more. What is shown here stays.",
    ended: "The run has ended, and every watcher has all of it. What is shown here stays.",
    count: { one: "{n} watcher", other: "{n} watchers" }, catchingUp: { one: "{n} watcher, catching up", other: "{n} watchers, catching up" },
    thisPage: "{name} (this page)", upToDate: "up to date", behind: "{n} behind", delivered: "{n} records delivered", merged: "{n} merged", leftOut: "{n} left out",
    coalesce: "merges", coalesceHelp: "When it is behind, neighbouring pieces of one text are joined into one record. Nothing is lost.",
    reliable: "gets everything", reliableHelp: "It is given every record by itself, however far behind it is.",
    latest: "only the latest", latestHelp: "When it is behind, it is given the newest record and skips those before it.",
    drop_oldest: "leaves out", drop_oldestHelp: "When it is behind, the oldest pieces of text are skipped for it. Starts, ends and results are never skipped.",
  },
  notes: {
    title: "Notices", none: "Verdicts of hooks, errors and limits appear here.", count: { one: "{n} notice", other: "{n} notices" }, data: "Data", at: "at {at}",
    error: "Error", limit: "Limit reached", detached: "Watcher detached", sharedState: "Shared state", removed: "removed", notShown: "Not shown here", records: "records {first} to {last}",
    retracted: "Retracted", again: ", again in {seconds} s", cancelled: "Cancelled", stopped: "Stopped by a limit", ended: "Ended early", paused: "Paused", by: "by {hook}",
  },
  charts: {
    title: "Usage", tokens: "Tokens", cost: "Cost", costIn: "Cost in {currency}", speed: "Speed", read: "{n} read", written: "{n} written", cached: "{n} cached", thinking: "{n} thinking",
    none: "no numbers yet", unknown: "unknown", rate: "at most about {n} tokens a second",
    costHelp: "Tokens times the prices that the server was given. What the provider bills may differ.",
    rateHelp: "The fastest half second so far. A token is taken to be four characters, so this is an estimate.",
  },
  fleet: {
    skip: "Skip to the runs", title: "Runs of all processes", conversations: "Conversations", tab: "Fleet · {title}", lost: "The connection was lost. Trying again.",
    running: "Running", queued: "Queued", paused: "Paused", recovering: "Recovering", finished: "Finished", aborted: "Aborted", processes: "Processes", oldest: "the oldest for {seconds}",
    taken: "What they took", period: "Period", fiveMinutes: "5 minutes", hour: "1 hour", day: "24 hours", week: "7 days",
    ended: "Ended", failed: "Failed", tokensRead: "Tokens read", tokensWritten: "Tokens written", cost: "Cost", mostQueued: "Most queued", tools: "Tools", toolsFailed: "{n} failed", toolsP95: "Tools, p95", recoveries: "Recoveries",
    tokens: "Tokens", endedRuns: "Ended runs", queue: "Queue", tokensMinute: "read and written, a minute", tokensHour: "read and written, an hour",
    queuedMinute: "at most, in a minute, while this server ran", queuedHour: "at most, in an hour, while this server ran", endedMinute: "all and failed, a minute", endedHour: "all and failed, an hour",
    groups: "Workers and tenants", worker: "Worker", tenant: "Tenant", open: "Open", process: "Process", runs: "Runs", run: "Run", status: "Status", turns: "Turns", begun: "Begun",
    search: "Search", searchHint: "Title, id or reason", all: "all", showAll: "Show all", showMore: "Show more",
    none: "No runs yet.", noMatch: "No run matches.", noProcess: "No process holds a run.", newest: "The newest {n} are shown. Search for others.",
    moreGroups: { one: "and {n} more group", other: "and {n} more groups" }, moreProcesses: { one: "and {n} more process", other: "and {n} more processes" },
  },
  units: { second: "{n} s", minutes: "{n} min {s} s", hours: "{n} h {m} min", now: "just now", minutesAgo: "{n} min ago", hoursAgo: "{n} h ago" },
};
