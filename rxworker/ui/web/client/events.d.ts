// The types of events and of what the server sends, made from the Python types by tests/integration/client/event_types.py.

/** The connection is open. */
export interface Ping {
  type: "ping";
  /** Seconds since the epoch, where the provider sent it. */
  timestamp: number | null;
}

/** Tokens of one response so far: a snapshot, never a difference. The last one holds. */
export interface Usage {
  type: "usage";
  /** Everything the model read, cached or not. */
  input_tokens?: number | null;
  /** Everything the model wrote, thinking included. */
  output_tokens?: number | null;
  /** The part of the input that came from a cache. */
  cache_read_tokens?: number | null;
  /** The part of the input that was written to a cache. */
  cache_creation_tokens?: number | null;
  /** The part of the output that was thinking. */
  reasoning_tokens?: number | null;
  /** The provider's own numbers. */
  raw?: { [key: string]: unknown } | null;
  /** Whether a response was cut before its final numbers, so that the true ones are higher. */
  is_partial?: boolean;
  /** The part of what was written to a cache that lives for an hour, which has a price of its own. */
  cache_creation_1h_tokens?: number | null;
  /** Of a sum: the tokens of its responses, by the largest of `SIZES` that their input exceeds, since long prompts have prices of their own. Empty for one response, unless its provider has made it in several passes, and for a sum that is not longer than the first size. */
  by_size?: ([number, Usage])[];
}

/** Where a response stands. */
export type ResponseStatus = "Started" | "Completed" | "Cancelled" | "Failed";

/** The normal forms of the providers' reasons. */
export type StopKind = "EndTurn" | "MaxTokens" | "StopSequence" | "ToolUse" | "Refusal" | "PauseTurn" | "ContentFilter" | "Malformed" | "Incomplete" | "Other";

/** Why a response ended. */
export interface StopReason {
  /** The normal form, the same for all providers. */
  kind: StopKind;
  /** The provider's own word; ``None`` where it sent none. */
  raw?: string | null;
  /** Further details from the provider: the stop sequence that matched, or an explanation. */
  detail?: string | null;
}

/** A response started or ended. A second ``STARTED`` retracts the events of the response before it. */
export interface Status {
  type: "status";
  /** The status of the response. */
  status: ResponseStatus;
  /** The provider's name for it; with ``STARTED``. */
  response_id?: string | null;
  /** The model that answers; with ``STARTED``. */
  model?: string | null;
  /** Why it ended; with ``COMPLETED``. ``None``: the provider did not report it. */
  stop_reason?: StopReason | null;
  /** The name of the provider whose answer is used, if several received the request; with ``STARTED``. */
  provider?: string | null;
  /** Content that the provider requires back with the message, see `rxworker.messages.Message`. */
  echo?: { [key: string]: unknown } | null;
  /** The host of that provider; with ``provider``. */
  service?: string | null;
}

/** The response failed. Nothing but a ``Status`` comes after it. */
export interface Error {
  type: "error";
  /** The provider's word for it; ``truncated`` is ours, for a stream that just stopped. */
  code: string | null;
  /** The provider's message to users. */
  message: string;
  /** Whether the same request may succeed. */
  retryable?: boolean;
  /** The normal form, see `ProviderError.kind`. */
  kind?: string;
  /** The provider's name for the request. */
  request_id?: string | null;
  /** Seconds to wait before the request is made again, if the provider sent it. */
  retry_after?: number | null;
}

/** Something of the provider's that we do not know. It travels on, so that nothing is lost. */
export interface Opaque {
  type: "opaque";
  /** The provider's name for it. */
  kind: string;
  /** The content as received. */
  raw: unknown;
}

/** The kind of content of a block. */
export type BlockType = "text" | "thinking" | "tool_use" | "tool_result" | "refusal" | "image" | "server_tool_use" | "server_tool_result" | "opaque";

/** Which tool is called, by the client or by the provider itself. */
export interface ToolUseMetadata {
  type: "tool_use";
  /** The id that the result must name. */
  id: string;
  /** The tool's name. */
  name: string;
  /** Whether the tool takes a text as it is, not a JSON object. */
  is_free_text?: boolean;
}

/** Which call a result belongs to. */
export interface ToolResultMetadata {
  type: "tool_result";
  /** The ``id`` of the call. */
  tool_use_id: string;
  /** The provider's name for the kind of result. */
  name: string;
}

/** The provider's name for a block of an unknown kind. */
export interface OpaqueMetadata {
  type: "opaque";
  kind: string;
}

/** A block begins. */
export interface BlockStart {
  type: "block_start";
  /** Its name within the response. */
  index: number;
  /** The type of its content. */
  block_type: BlockType;
  /** Which tool or result; ``None`` for text and thinking. */
  metadata?: ToolUseMetadata | ToolResultMetadata | OpaqueMetadata | null;
  /** Content that the provider requires back, as far as it is known now. */
  echo?: { [key: string]: unknown } | null;
  /** The index of its choice, if a response has several choices. */
  choice?: number;
}

/** More visible text. ``choice`` is whose it is, where a response has several choices. */
export interface TextDelta {
  type: "text_delta";
  index: number;
  text: string;
  choice?: number;
}

/** More thinking. */
export interface ThinkingDelta {
  type: "thinking_delta";
  index: number;
  text: string;
  choice?: number;
}

/** More of a refusal. */
export interface RefusalDelta {
  type: "refusal_delta";
  index: number;
  text: string;
  choice?: number;
}

/** More of the JSON text of a tool call's arguments. The pieces make JSON only when joined. */
export interface InputJsonDelta {
  type: "input_json_delta";
  index: number;
  text: string;
}

/** One value within a tool call's arguments, for providers that stream them by path and not as text. */
export interface InputValueDelta {
  type: "input_value_delta";
  index: number;
  /** Where, as a JSON path, for example ``$.items[0].name``. */
  path: string;
  /** What. */
  value: unknown;
  /** Whether a text goes after the text that is there. */
  append: boolean;
}

/** The provider's seal on a thinking block. It replaces an earlier one. */
export interface SignatureDelta {
  type: "signature_delta";
  index: number;
  signature: string;
}

/** One more source of a text block, as the provider gave it. */
export interface CitationDelta {
  type: "citation_delta";
  index: number;
  citation: { [key: string]: unknown };
}

/** A block is whole. */
export interface BlockStop {
  type: "block_stop";
  /** Its name within the response. */
  index: number;
  /** The type of its content. */
  block_type: BlockType;
  /** Why its choice ended, if the protocol reports it with the block. */
  stop_reason?: StopReason | null;
  /** Content that the provider requires back; these keys override those of the start. */
  echo?: { [key: string]: unknown } | null;
  /** For a tool call: its id and name, as at the start. */
  metadata?: ToolUseMetadata | ToolResultMetadata | OpaqueMetadata | null;
}

/** A block will not become whole: the response was cut, cancelled or retracted. */
export interface BlockAbort {
  type: "block_abort";
  /** Its name within the response. */
  index: number;
  /** The type of its content. */
  block_type: BlockType;
  /** Shown to users; not interpreted. */
  reason?: string;
}

/** Visible text. */
export interface Text {
  type: "text";
  /** The text. */
  text: string;
  /** The sources of the text, as the provider sent them. */
  citations?: ({ [key: string]: unknown })[];
  /** Content that the provider requires back. */
  echo?: { [key: string]: unknown } | null;
}

/** The reasoning of the model before its answer. */
export interface Thinking {
  type: "thinking";
  /** The thoughts, or their summary; empty where the provider keeps them to itself. */
  text: string;
  /** The provider's seal on them, which the next request must carry. */
  signature?: string | null;
  /** Further content that the provider requires back. */
  echo?: { [key: string]: unknown } | null;
}

/** Why the model will not answer, in its words. */
export interface Refusal {
  type: "refusal";
  text: string;
  echo?: { [key: string]: unknown } | null;
}

/** A request of the model to run a tool. */
export interface ToolCall {
  type: "tool_call";
  /** The id that the result must contain. rxworker generates it if the provider sends none. */
  id: string;
  /** The tool's name. */
  name: string;
  /** Its arguments; a string for a tool that takes free text. */
  input: { [key: string]: unknown } | string;
  /** Content that the provider requires back. */
  echo?: { [key: string]: unknown } | null;
}

/** An image: its bytes, its address, or the id of an uploaded file. Read one from disk with `Image.from_file`. */
export interface Image {
  type: "image";
  /** For example ``image/png``. */
  media_type?: string;
  /** The bytes in base64, without a ``data:`` prefix. */
  data?: string | null;
  /** The address of the image, instead of ``data``. */
  url?: string | null;
  echo?: { [key: string]: unknown } | null;
  /** The provider's id of an uploaded file, instead of ``data``. */
  file_id?: string | null;
}

/** A document: its bytes, its address, or the id of an uploaded file. Read one from disk with `Document.from_file`. */
export interface Document {
  type: "document";
  /** For example ``application/pdf``. */
  media_type?: string;
  /** The bytes in base64, without a ``data:`` prefix. */
  data?: string | null;
  /** The address of the document, instead of ``data``. */
  url?: string | null;
  /** Its name, for the model to cite. */
  title?: string | null;
  echo?: { [key: string]: unknown } | null;
  /** The provider's id of an uploaded file, instead of ``data``. */
  file_id?: string | null;
  /** Whether the model cites the document. Only Anthropic has such a switch; others ignore it. */
  citations?: boolean;
  /** Information about the document for the model, which it does not cite. Only Anthropic; others ignore it. */
  context?: string | null;
}

/** A sound recording that a user or a tool gives. Read one from disk with `Audio.from_file`. */
export interface Audio {
  type: "audio";
  /** For example ``audio/wav``. */
  media_type?: string;
  /** The bytes in base64, without a ``data:`` prefix. */
  data?: string | null;
}

/** The result of a tool call. */
export interface ToolResult {
  type: "tool_result";
  /** The ``id`` of the call. */
  tool_use_id: string;
  /** Text, or blocks. */
  content?: string | (Text | Image | Document | Audio)[];
  /** Whether the call failed; the model may then try something else. */
  is_error?: boolean;
  /** The tool's name, which some providers match by. */
  name?: string;
}

/** The provider ran a tool of its own. Not ours to run; sent back as it came. */
export interface ServerToolCall {
  type: "server_tool_call";
  id: string;
  name: string;
  input?: unknown;
  echo?: { [key: string]: unknown } | null;
}

/** The result of a call of one of the provider's tools. */
export interface ServerToolResult {
  type: "server_tool_result";
  tool_use_id?: string;
  name?: string;
  echo?: { [key: string]: unknown } | null;
}

/** A block we do not know, kept whole so that it can be sent back. */
export interface OpaqueBlock {
  type: "opaque";
  /** The provider's name for it. */
  kind: string;
  /** The block. */
  echo?: { [key: string]: unknown } | null;
}

/** Everything up to this point may be cached. The model does not see it; providers without cache marks omit it. */
export interface CachePoint {
  type: "cache_point";
  /** The lifetime in the provider's words, for example ``1h``; ``None``: the provider's default. */
  ttl?: string | null;
}

/** One message. */
export interface Message {
  /** The author of the message. Tool results are content of a ``user`` message. */
  role: "system" | "user" | "assistant";
  /** The content blocks. */
  content: (Text | Thinking | Refusal | ToolCall | ToolResult | Image | Document | Audio | ServerToolCall | ServerToolResult | OpaqueBlock | CachePoint)[];
  /** The provider of an assistant's message: the ``echo`` of its blocks is for that provider alone. */
  provider?: string | null;
  /** The model that spoke. */
  model?: string | null;
  /** What that provider needs back with the next request, for the message as a whole, such as the container in which its code ran. */
  echo?: { [key: string]: unknown } | null;
  /** The host that answered. What it has sealed, such as signatures and encrypted reasoning, is sent back to that service alone, and to models of the same maker. ``None``: not known. */
  service?: string | null;
}

/** All messages so far. A value: adding to one returns a new one. */
export interface Conversation {
  /** In order. */
  messages?: Message[];
  /** The application's instructions to the model. */
  system?: string | null;
  /** How many of the first messages a worker's requests carry in a shorter form; see `rxworker.worker.Compact`. */
  replaced?: number;
  /** That shorter form. */
  instead?: Message[];
}

/** The required form of an answer: JSON that matches a schema. Each provider has its own way to request it. */
export interface OutputFormat {
  /** JSON schema of an object, without ``$ref``. */
  schema: { [key: string]: unknown };
  /** Its name, for providers that require one. */
  name: string;
}

/** A run begins. */
export interface RunStart {
  type: "run_start";
  /** The conversation before the run, with the input of this run at its end. */
  conversation: Conversation;
  /** How many of the messages, from the end, are that input. */
  added?: number;
  /** A digest of each tool, by its name, where the run is logged. Only a worker that has these tools, with the same parameters, can recover it. */
  tools?: { [key: string]: string };
  /** The trace context of the caller, as the header of that name of W3C Trace Context; empty without one. See ``Worker(tracing=)``. */
  traceparent?: string;
  /** The form of the answer, if a type was requested. */
  output_format?: OutputFormat | null;
  /** The labels of the run, such as its tenant, by which panels group it; without what a server notes of its conversation. */
  labels?: { [key: string]: string };
  /** The name of the worker. */
  worker?: string;
}

/** A question of a tool to a person while it runs: to fill in a form, or to visit an address. */
export interface Question {
  /** Where it comes from, such as the name of an MCP server. */
  source: string;
  /** The question, and its reason. */
  message: string;
  /** The JSON Schema of the form: an object, whose properties are texts, numbers, booleans and choices; ``None``: there is no form. */
  schema?: { [key: string]: unknown } | null;
  /** The address to visit. Nothing opens it but the person. */
  url?: string;
}

/** The answer of a person to a `Question`. */
export interface Reply {
  /** ``accept``: the form is filled in, or the address was visited; ``decline``: neither. */
  action: "accept" | "decline";
  /** The content of the form. */
  content?: { [key: string]: unknown };
}

/** What a tool waits for: whichever comes first. */
export interface Wait {
  /** A moment, in seconds since the epoch; 0: none. */
  due?: number;
  /** The name of a signal; empty: none. */
  signal?: string;
  /** The id of a run that ends; empty: none. */
  run?: string;
  /** Whether a message that is sent into the run ends it. */
  message?: boolean;
  /** The name of an event of the application in that run, which ends it too; empty: none. */
  event?: string;
  /** The id of the message that has ended it; empty: something else has, or nothing yet. */
  by?: string;
}

/** A call that its tool has begun, and goes on with. */
export interface Begun {
  /** What the tool needs to go on. It means nothing to others. */
  state?: unknown;
  /** Its question, if it has one. */
  question?: Question | null;
  /** The answer; ``None``: it waits for one. */
  reply?: Reply | null;
  /** The id of the run that the call has begun, if that is paused. */
  run?: string;
  /** What that run waits for, as far as a decision needs it. */
  paused?: PauseState | null;
  /** The decisions about the calls inside, in the order of `PauseState.tree`; ``None``: it waits for them. */
  decided?: unknown[] | null;
  /** What it has waited for so far, in order. */
  awaits?: Wait[];
  /** What each of these has ended with; the last one has not ended, if there is one less. */
  woken?: unknown[];
}

/** A tool call that waits to run. */
export interface PausedCall {
  /** Its index among the calls of the response. Two calls may have one id; they differ in their places. */
  place: number;
  /** The call, with its exact arguments. */
  call: ToolCall;
  /** The hooks that do not run for it again; see `HookContext.spared`. */
  spared?: ([string, number])[];
  /** Whether it needs no other approval: the hooks or a person have approved it as it is. */
  is_approved?: boolean;
  /** How the tool goes on, if it has begun the call; ``None``: the call is made from its start. */
  begun?: Begun | null;
  /** What a hook has waited for before the call, whose name is its state. */
  held?: Begun | null;
}

/** A tool call that goes on in the background: its turn has a placeholder, and the result comes as a message. */
export interface BackgroundCall {
  /** By which its result is delivered: the id of the call, or ``key`` where an earlier one in the background had that. */
  id: string;
  /** The call, with its exact arguments. */
  call: ToolCall;
  /** Its idempotency key. */
  key: string;
  /** Its index among the calls of its response. */
  place?: number;
  /** When it went into the background, in seconds since the epoch. */
  began?: number;
  /** When the model has ended its answer, the run waits for the result (``wait``), pauses until it comes (``wake``), or ends and cancels the call (``cancel``). */
  at_end?: "wait" | "wake" | "cancel";
  /** Whether no process runs it: its result is delivered from outside. */
  is_delivered?: boolean;
  /** Why it is not known whether it had an effect, if its process has ended; shown to users. */
  reason?: string;
  /** The hooks that had agreed to it. A process that has others does not make it again. */
  agreed?: string[];
  /** What it waits for, and what was decided about that, if it has waited: as in `PausedCall`. */
  begun?: Begun | null;
  /** How often it has begun to wait, and gone on. A decision is about one step. */
  step?: number;
}

/** What a paused run waits for, and what it needs to go on. */
export interface PauseState {
  /** The name of the hook that requested the pause; ``requires_approval`` where the policy of the tool did, ``pause`` where the application did, by ``run.pause()``, ``client_tool`` where a client runs the calls, ``question`` where their tools have a question, ``until`` where they wait for something else, ``nested`` where only runs inside them wait, ``background`` where the run waits for the results of calls in the background, and ``recovery`` where their effects are not known. */
  hook: string;
  /** The calls of the run itself that wait, in order. */
  calls: PausedCall[];
  /** The indices of those that need a decision: the call that the hook paused at, and with ``recovery`` each call that a process has started which has ended since, with ``question`` each call that has one. Empty at the end of a turn, with ``client_tool``, ``nested``, ``until`` and ``pause``. */
  required: number[];
  /** Shown to users; not interpreted. */
  reason?: string;
  /** The results of the calls of the response that do not wait, by their places: they are not run, or have run before those of the client. */
  refused?: { [key: string]: ToolResult };
  /** The prefix of the idempotency keys of the calls. */
  key?: string;
  /** At the end of a turn: the hooks that do not run for it again. */
  spared?: ([string, number])[];
  /** At the end of a turn: what a hook has waited for, whose name is its state. */
  held?: Begun | null;
  /** The calls in the background that wait themselves. A decision about another call leaves them waiting. */
  background?: BackgroundCall[];
}

/** The run waits for a decision; ``worker.resume`` continues it. */
export interface RunPause {
  type: "run_pause";
  /** What it waits for. */
  pause: PauseState;
}

/** Prices of a model, for a million tokens, in one currency. */
export interface Prices {
  /** The price of input that is not cached. */
  input: number;
  /** The price of output, including thinking. */
  output: number;
  /** The price of input that is read from a cache; ``None``: that of ``input``. */
  cache_read: number | null;
  /** The price of input that is written to a cache; ``None``: that of ``input``. */
  cache_creation: number | null;
  /** The currency of the prices. It is shown beside a cost; nothing is converted. */
  currency: string;
  /** The price of input that is written to a cache for an hour; ``None``: that of ``cache_creation``. */
  cache_creation_1h: number | null;
  /** The length of a prompt in tokens, one of `SIZES`, above which all tokens of its request have other prices. */
  above: number | null;
  /** These prices. */
  long: Prices | null;
}

/** A paused run goes on. */
export interface RunResume {
  type: "run_resume";
  /** The conversation so far. */
  conversation: Conversation;
  /** The pause as the decisions have left it: its calls run first, unless a hook prevents it. */
  pause?: PauseState;
  /** The tokens of the run so far, those of nested runs included. */
  usage?: Usage;
  /** Its turns so far. */
  turns?: number;
  /** How many tools it has started so far, those of nested runs included, as for the next three. */
  tool_calls?: number;
  /** How often hooks have sent an answer back so far. */
  continuations?: number;
  /** The id of the run that was paused. */
  resumes?: string;
  /** The trace context of the caller, as in `RunStart`. */
  traceparent?: string;
  /** The form of the answer, as in `RunStart`. */
  output_format?: OutputFormat | null;
  /** Digests of the tools, as in `RunStart`. */
  tools?: { [key: string]: string };
  /** The names of the tools that the worker runs itself, as in `AttemptStart`. */
  own_tools?: string[] | null;
  /** The labels of the run, as in `RunStart`. */
  labels?: { [key: string]: string };
  /** How many of them have failed. */
  tool_errors?: number;
  /** How long they took together. */
  tool_seconds?: number;
  /** How many of them took how long, as in `RunState`. */
  tool_durations?: number[];
  /** The tokens by the names of the models. */
  usage_by_model?: { [key: string]: Usage };
  /** Their prices so far, by their names, where requests have recorded them; ``None`` if they are not known. */
  prices?: { [key: string]: Prices | null };
  /** The name of the worker. */
  worker?: string;
  /** The calls in the background that have no result yet. */
  background?: BackgroundCall[];
}

/** The run finished. */
export interface RunStop {
  type: "run_stop";
}

/** The run ended without a result. */
export interface RunAbort {
  type: "run_abort";
  /** ``cancel``, ``error``, ``abort`` (by a hook) or ``limit``. */
  cause: "cancel" | "error" | "abort" | "limit";
  /** Shown to users; not interpreted. */
  reason: string;
}

/** Another process continues a stored run whose process has ended. */
export interface RunRecover {
  type: "run_recover";
  /** The epoch of the new owner. */
  epoch: number;
  /** The name of the new owner. */
  owner: string;
  /** Shown to users; not interpreted. */
  reason?: string;
  /** The number of the last record that was progress: a complete response, the end of a tool, or a turn. A run that is recovered three times at the same number is aborted. */
  progress?: number;
  /** The form of the answer, if it was requested again; ``None`` leaves it as it was. */
  output_format?: OutputFormat | null;
  /** Digests, as in `RunStart`, of the tools that the process has besides those of the run. */
  tools?: { [key: string]: string };
}

/** A stored run that was aborted is put back: it waits for a process, which continues it after this record. */
export interface RunRequeue {
  type: "run_requeue";
  /** Shown to users; not interpreted. */
  reason?: string;
  /** How many commands had been sent to the run. Those that it has not taken are void. */
  commands?: number;
}

/** The process of a stored run is being shut down. It has released the run, so that another process continues it. */
export interface HandOver {
  type: "hand_over";
  /** Shown to users; not interpreted. */
  reason: string;
}

/** The owner of a stored run has taken a command. It is stored in one transaction with the effect of the command. */
export interface CommandTaken {
  type: "command_taken";
  /** The number of the command. */
  number: number;
  /** Its kind: ``send``, ``deliver``, ``pause``, ``cancel`` or ``decide``; ``ignored`` for one that no run can take. */
  kind: string;
  /** Why it has no effect; empty if it has one. */
  ignored?: string;
}

/** The records before this one were copied from another run, which goes another way from here on. */
export interface Fork {
  type: "fork";
  /** The id of that run. */
  source: string;
  /** The number of the last record that was copied. */
  seq: number;
  /** The labels of the run, as in `RunStart`: its panels begin with this record. */
  labels?: { [key: string]: string };
  /** The name of the worker. */
  worker?: string;
}

/** A turn begins: one request, and the tools that its response calls. */
export interface TurnStart {
  type: "turn_start";
}

/** A turn has ended; another may follow. */
export interface TurnStop {
  type: "turn_stop";
}

/** A request goes out. */
export interface AttemptStart {
  type: "attempt_start";
  /** The name of the provider, as in messages. */
  provider?: string;
  /** The name of the model. */
  model?: string;
  /** The names of the tools that the worker runs itself, when the request goes out; ``None`` where it is not recorded. A client may run a call of any other tool only when a `RunPause` with ``client_tool`` as the hook has offered it. */
  own_tools?: string[] | null;
  /** The prices of its tokens, if they are not those of the table of models: those of ``Limits(prices=)``, or of the model itself. */
  prices?: Prices | null;
  /** Whether the prices are not known, though the table of models has some for the name, such as those of its vendor for another service. */
  is_unpriced?: boolean;
  /** The host that receives it, as in messages; empty where the model has none. */
  service?: string;
}

/** The events of this attempt are retracted; another attempt follows. */
export interface AttemptRetract {
  type: "attempt_retract";
  /** Shown to users; not interpreted. */
  reason: string;
  /** Seconds until the next attempt. */
  delay: number;
}

/** The conversation grows by something other than a response: tool results, or what a hook adds. */
export interface MessageAdd {
  type: "message_add";
  /** The added messages. */
  messages: Message[];
  /** The source of the messages: ``tools``, ``background`` with the result of a call in the background, or a hook's name. */
  source: string;
}

/** The conversation that is kept becomes another one. */
export interface ConversationReplace {
  type: "conversation_replace";
  /** The conversation so far, as it is from here on. */
  conversation: Conversation;
  /** The name of the hook. */
  source: string;
}

/** The next requests carry the beginning of the conversation in a shorter form. */
export interface ConversationCompact {
  type: "conversation_compact";
  /** How many of the first messages it stands for; 0 if no summary came, and only its tokens count. */
  replaced?: number;
  /** The messages that are sent in their place. */
  instead?: Message[];
  /** How it was made, as in `rxworker.worker.Compact`. */
  by?: string;
  /** The tokens of the request that was too long, about. */
  tokens?: number;
  /** The name of the model that wrote the summary. */
  model?: string;
  /** The tokens of the summary. */
  usage?: Usage;
}

/** A tool starts to run. */
export interface ToolStart {
  type: "tool_start";
  /** The call, after the hooks. */
  call: ToolCall;
  /** The index of the call among the calls of its response, from 0. A provider may give two calls one id. */
  place?: number;
}

/** A tool reports its progress. */
export interface ToolProgress {
  type: "tool_progress";
  /** Which call. */
  call_id: string;
  /** Its report. */
  progress: unknown;
  /** The index of the call among the calls of its response. */
  place?: number;
}

/** A tool has run, was skipped, or was stopped. It is emitted as soon as the call ends. */
export interface ToolStop {
  type: "tool_stop";
  /** The result for the model. ``None`` where an ``after_tool_call`` hook may change it: a `ToolOutput` follows when the hooks have returned. */
  result?: ToolResult | null;
  /** How long it ran. */
  seconds?: number;
  /** Which call; by default that of the result. */
  call_id?: string;
  /** The index of the call among the calls of its response. */
  place?: number;
  /** Whether the call failed; by default whether the result is an error. */
  is_error?: boolean;
  /** The name of the tool; by default that of the result. */
  tool?: string;
}

/** The result of a call as the ``after_tool_call`` hooks left it. */
export interface ToolOutput {
  type: "tool_output";
  /** The result for the model. */
  result: ToolResult;
  /** The index of the call among the calls of its response. */
  place?: number;
}

/** A call goes on in the background, while the turn goes on. Its `ToolStop` follows, with a placeholder as result. */
export interface BackgroundStart {
  type: "background_start";
  /** The call. */
  background: BackgroundCall;
}

/** A call in the background reports its progress. */
export interface BackgroundProgress {
  type: "background_progress";
  /** Which call, as in `BackgroundCall`. */
  id: string;
  /** Its report. */
  progress: unknown;
}

/** The result of a call in the background. Unless the run ends with it, a `MessageAdd` gives it to the model. */
export interface BackgroundStop {
  type: "background_stop";
  /** Which call, as in `BackgroundCall`. */
  id: string;
  /** The result, as the ``after_tool_call`` hooks left it. */
  result: ToolResult;
  /** How long the call ran; 0 where that is not known. */
  seconds?: number;
}

/** The state that tools and hooks share with user interfaces has changed. */
export interface SharedStateChange {
  type: "shared_state_change";
  /** ``add``, ``replace`` or ``remove``. */
  op: "add" | "replace" | "remove";
  /** The place, as a JSON Pointer; empty for the whole state. */
  path?: string;
  /** The new value. */
  value?: unknown;
}

/** A message of a hook to the watchers. The model does not see it. */
export interface HookMessage {
  type: "hook_message";
  /** The hook's name. */
  hook: string;
  /** ``message``, a ``system`` notice, or ``debug`` data. */
  level: "message" | "system" | "debug";
  /** Shown to users; not interpreted. */
  content: string;
  /** With ``debug``. */
  data?: { [key: string]: unknown } | null;
  /** With ``message``: the role in which it is shown. */
  role?: "system" | "user" | "assistant";
}

/** An event of the application; see `rxworker.events.CustomEvent`. */
export interface Custom {
  type: "custom";
  /** The name of its kind, such as ``acme.score``. */
  name: string;
  /** Its fields. */
  data?: { [key: string]: unknown };
}

/** A hook decided something other than to go on. */
export interface HookVerdict {
  type: "hook_verdict";
  /** The hook's name. */
  hook: string;
  /** The hook point. */
  point: string;
  /** Its name, for example ``Skip``. */
  verdict: string;
  /** Shown to users; not interpreted. */
  reason?: string;
  /** Which tool call, at the tool points. */
  call_id?: string | null;
}

/** A limit of the run was reached; the run ends. */
export interface LimitReached {
  type: "limit_reached";
  /** Its name. */
  limit: string;
  /** The value that was set. */
  value: number;
}

/** A tool or a hook of the run held the event loop, and all runs with it. Emitted the first time. */
export interface LoopHold {
  type: "loop_hold";
  /** ``tool`` or ``hook``. */
  kind: string;
  /** Its name. */
  name: string;
  /** How long it did not return. */
  seconds: number;
}

/** A watcher raised and was detached. The run and the other watchers go on. */
export interface WatcherDetach {
  type: "watcher_detach";
  /** Its name. */
  watcher: string;
  /** The exception that it raised. */
  error: string;
}

/** Records that this watcher was not given, because it was too slow for its delivery. The others have them. */
export interface Gap {
  type: "gap";
  /** The number of the first that is missing. */
  first: number;
  /** The number of the last that is missing. */
  last: number;
}

/** One event of a run, with where and when. */
export interface Record {
  /** Its number within the run, from 1, without gaps. Resuming counts by it. */
  seq: number;
  /** The run's id. */
  run: string;
  /** The turn's number, from 1; 0 before the first. */
  turn: number;
  /** The request's number within the turn, from 1; 0 before the first. */
  attempt: number;
  /** Seconds since the epoch. */
  time: number;
  /** The event. */
  event: Ping | Usage | Status | Error | Opaque | BlockStart | TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta | InputValueDelta | SignatureDelta | CitationDelta | BlockStop | BlockAbort | RunStart | RunPause | RunResume | RunStop | RunAbort | RunRecover | RunRequeue | HandOver | CommandTaken | Fork | TurnStart | TurnStop | AttemptStart | AttemptRetract | MessageAdd | ConversationReplace | ConversationCompact | ToolStart | ToolProgress | ToolStop | ToolOutput | BackgroundStart | BackgroundProgress | BackgroundStop | SharedStateChange | HookMessage | Custom | HookVerdict | LimitReached | LoopHold | WatcherDetach | Gap;
  /** The tool calls that lead to it, for a run inside a run. */
  path?: string[];
  /** How many records this one stands for, itself among them. More than one where a delivery has merged adjacent deltas, or left some out: it stands for ``first`` to ``seq``. */
  covers?: number;
}

/** A tool call that waits for a decision. */
export interface PendingCall {
  /** The id, for the decision. */
  id: string;
  /** The tool's name. */
  name: string;
  /** Its exact arguments. */
  input: unknown;
  /** Whether the run cannot be resumed without a decision about it. */
  needs_decision: boolean;
  /** The question of its tool: the decision answers it, and approves with the content of the form as its input. */
  question: Question | null;
  /** The ids of the calls down to its run; empty for a call of the run itself. */
  path: string[];
  /** Why its run waits; shown to users. */
  reason: string;
}

/** The pause of a run. */
export interface PauseSummary {
  /** The name of the hook that paused it. */
  hook: string;
  /** Shown to users; not interpreted. */
  reason: string;
  /** The ``id`` of the call that it paused at; ``None`` at the end of a turn. */
  paused_at: string | null;
  /** The calls that wait, in order. */
  pending: PendingCall[];
}

/** A watcher at one moment. */
export interface WatcherState {
  /** Its name, as passed or numbered. */
  name: string;
  /** ``reliable``, ``coalesce``, ``latest`` or ``drop_oldest``. */
  delivery: string;
  /** The number of the last record that it has seen. */
  seq: number;
  /** How many records it is behind. */
  lag: number;
  /** How many records were delivered to it. */
  delivered: number;
  /** How many records were merged into others on the way to it. */
  merged: number;
  /** How many records were neither delivered nor merged. */
  dropped: number;
}

/** A tool that a person always allows in a conversation. */
export interface AllowedTool {
  /** The name of the tool. */
  tool: string;
  /** The name of the hook that then pauses no run for it. */
  hook: string;
}

/** The message that a conversation replaces: it begins as another one did before that message. */
export interface Branch {
  /** The id of that conversation. It is the one that had the message first, also when a replaced message is replaced again. */
  conversation: string;
  /** The number of the message among those of the user, from 0. */
  message: number;
}

/** What a person has noted about a conversation. */
export interface Marks {
  /** Its name; empty for the beginning of its newest input. */
  title: string;
  /** Its tags. */
  tags: string[];
  /** Whether lists show it first. */
  pinned: boolean;
}

/** The summary of a run. */
export interface RunSummary {
  /** The run's id. */
  id: string;
  /** The id of its conversation. */
  conversation: string;
  /** The name of its worker. */
  worker: string;
  /** ``running``, ``paused``, ``finished`` or ``aborted``. */
  status: "running" | "paused" | "finished" | "aborted";
  /** The beginning of its input. */
  title: string;
  /** The time of its start, in seconds since the epoch. */
  started: number;
  /** The time at which it ended or paused. */
  ended: number | null;
  /** The number of its last record. */
  seq: number;
  /** The number of turns that started. */
  turns: number;
  /** The number of tool calls that started, nested runs included. */
  tool_calls: number;
  /** Its tokens. */
  usage: Usage;
  /** The cost of those whose prices are known; ``None`` if none are. */
  cost: number | null;
  /** Why it was aborted or paused. */
  reason: string;
  /** The cause of the abort; ``queued``, ``recovering``, ``cut_off`` or ``waiting`` while no process runs it. */
  cause: string;
  /** The pause, if it is paused. */
  pause: PauseSummary | null;
  /** The run that it resumes. */
  resumes: string | null;
  /** The run that resumes it. */
  resumed_as: string | null;
  /** Its watchers. */
  watchers: WatcherState[];
  /** The tools that are always allowed in its conversation. */
  allowed: AllowedTool[];
  /** Whether it has failed, or was set aside, and a log can put it back. */
  can_requeue: boolean;
  /** The message of another conversation that its conversation replaces. */
  branch: Branch | null;
  /** What a person has noted about its conversation. */
  marks: Marks;
  /** The models whose prices are not known: the cost is without their tokens. */
  unpriced: string[];
  /** The currency of the cost; empty without one. */
  currency: string;
}

/** What a panel shows at a moment. */
export interface PanelState {
  /** The name of the panel. */
  panel: string;
  /** When it last changed, in seconds since the epoch, by the times of the records. */
  time?: number;
  /** What it shows; ``None`` before the first value. */
  value?: number | string | { [key: string]: number | null } | { [key: string]: string } | ({ [key: string]: unknown })[] | null;
  /** The course of a ``line`` or an ``area``: for each group, or for the empty name, pairs of a time and a value, the oldest first. */
  points?: { [key: string]: ([number, number])[] };
  /** The groups whose value is beyond the limit, with the time since which each has been reported; of a panel without groups the empty name. */
  alerts?: { [key: string]: number };
  /** Why it, or one of its groups, has stopped. */
  error?: string;
  /** What is not known of a group, or for the empty name: the models whose prices are not; the value is without them. */
  missing?: { [key: string]: string[] };
  /** While stored runs are still read: how many are, and how many there are; what is shown is that of those, unless there is a ``since``. */
  reading?: [number, number] | null;
  /** While stored runs are still read: what is shown is that of all records since then, in seconds since the epoch. */
  since?: number | null;
}

export type RunEvent = Ping | Usage | Status | Error | Opaque | BlockStart | TextDelta | ThinkingDelta | RefusalDelta | InputJsonDelta | InputValueDelta | SignatureDelta | CitationDelta | BlockStop | BlockAbort | RunStart | RunPause | RunResume | RunStop | RunAbort | RunRecover | RunRequeue | HandOver | CommandTaken | Fork | TurnStart | TurnStop | AttemptStart | AttemptRetract | MessageAdd | ConversationReplace | ConversationCompact | ToolStart | ToolProgress | ToolStop | ToolOutput | BackgroundStart | BackgroundProgress | BackgroundStop | SharedStateChange | HookMessage | Custom | HookVerdict | LimitReached | LoopHold | WatcherDetach | Gap;

export type Delivery = "coalesce" | "reliable" | "latest" | "drop_oldest";
