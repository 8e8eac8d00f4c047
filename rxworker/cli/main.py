"""The command line: the options of each command, and the exit code.

A command's modules are imported when it is called, so that ``--help`` is fast and ``decode`` needs no extra.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import metadata
from math import inf
from typing import Any, NoReturn, TypeAlias

from rxworker.cli import exit_at_once, restore
from rxworker.cli.process import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    CommandError,
    explain,
    flush,
    need_mcp,
    need_rich,
    prepare_streams,
    set_up_logging,
    silence,
    write_error,
)
from rxworker.cli.providers import provider_names
from rxworker.errors import RxWorkerError


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: Its arguments; those of the process unless they are given.

    Returns:
        The exit code: 0, 1 for a failure, 2 for a misuse, 130 after Ctrl-C.

    >>> main(["--version"]) # doctest: +ELLIPSIS
    rxworker ...
    0
    """
    try:
        restore()
        prepare_streams()
        code = _run(argv)
        flush()
    except CommandError as error:
        write_error(f"rxworker: {error}")
        return error.code
    except RxWorkerError as error:
        write_error(f"rxworker: {explain(error)}")
        return FAILED
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        silence()
        return 0
    except OSError as error:
        write_error(f"rxworker: {error.strerror or error}")
        return FAILED
    except KeyboardInterrupt:
        exit_at_once()
        write_error("")
        return INTERRUPTED
    return code


def _run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    try:
        args = parser.parse_args(argv)
    except SystemExit as done:  # --help and --version
        flush()
        return done.code if isinstance(done.code, int) else 0
    match args.command:
        case "demo" if args.web:
            from rxworker.cli.serve import demo_web as command
        case "demo":
            need_rich("rxworker demo")
            from rxworker.cli.demo import demo

            return demo(fast=args.fast)
        case "chat":
            need_rich("rxworker chat")
            from rxworker.cli.chat import chat as command
        case "serve":
            from rxworker.cli.serve import serve as command
        case "mcp":
            need_mcp()
            from rxworker.cli.protocols import mcp as command
        case "acp":
            from rxworker.cli.protocols import acp as command
        case "decode":
            from rxworker.cli.decode import decode as command
        case "work":
            from rxworker.cli.work import work as command
        case "submit":
            from rxworker.cli.work import submit as command
        case "runs":
            from rxworker.cli.runs import Options, runs

            given = _arguments(args)
            return runs(given.pop("address"), given.pop("action"), Options(**given))
        case _:
            write_error(parser.format_help().rstrip())
            return MISUSED
    if "log_level" in args:
        set_up_logging(args.log_level, args.log_format)
    return command(**_arguments(args))


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a command, which have the names of the parameters of its function; those of `_add_worker` are one."""
    common = ("command", "web", "log_level", "log_format")
    given = {name: value for name, value in vars(args).items() if name not in common}
    if "model" in given:
        from rxworker.cli.resolve import WorkerOptions

        values = {name: given.pop(name) for name in WorkerOptions.__struct_fields__}
        given["options"] = WorkerOptions(**values)
    return given


DESCRIPTION = "Language model responses as observables: see one run in several views, talk to a model, read a captured stream."
CHAT = """
examples:
  rxworker chat --provider anthropic --model claude-sonnet-4-5
  rxworker chat --provider openai-chat --model llama3.2 --base-url http://127.0.0.1:11434
  rxworker chat --provider anthropic --model claude-sonnet-4-5 --tool my_tools:look_up
  rxworker chat --provider anthropic --model claude-sonnet-4-5 --log sqlite:runs.db
  echo "Why is the sky blue?" | rxworker chat --provider anthropic --model claude-sonnet-4-5

In a terminal it fills the screen, where textual is installed; F1 shows the keys there, and / the commands.
With --log, /resume goes on with an earlier conversation, and rxworker serve on the same log shows them in the browser.
Ctrl-C cancels an answer and keeps the conversation; at the prompt, or a second time, it leaves. Ctrl-D leaves.
The ready hooks give the model the time and the git status of changed files, refuse destructive commands, and show
changed files and notices to you.
From a pipe, each line is a message: answers go to standard output, tools and errors to standard error.
"""
SERVE = """
examples:
  rxworker serve --demo
  rxworker serve --provider anthropic --model claude-sonnet-4-5 --tool my_tools:look_up
  rxworker serve --log sqlite:runs.db --provider anthropic --model claude-sonnet-4-5
  rxworker serve --log sqlite:runs.db my_workers:make_clerk
  rxworker serve --log sqlite:runs.db --queue clerk
  TOKEN=... rxworker serve --host 0.0.0.0 --token-env TOKEN --provider anthropic --model claude-sonnet-4-5

Only this machine can reach it, unless --host is given; then it needs a token. Ctrl-C ends it, and cancels its runs.
With --log its runs are stored: they are continued when it is started again, or by another server on the same log.
"""
MCP = """
examples:
  rxworker mcp --demo
  rxworker mcp my_workers:make_clerk --log sqlite:runs.db
  rxworker mcp --provider anthropic --model claude-sonnet-4-5 --tool my_tools:look_up --name look_up_agent
  TOKEN=... rxworker mcp my_workers:make_clerk --http 8765 --token-env TOKEN

A client such as Claude Desktop or an editor starts it, and calls each worker as a tool. The function returns a Worker; its docstring describes the
tool. With --http it serves any number of clients, on this machine alone unless a host is given.
"""
ACP = """
examples:
  rxworker acp --demo
  rxworker acp --provider anthropic --model claude-sonnet-4-5 --tool my_tools:look_up
  rxworker acp --log sqlite:runs.db my_workers:make_worker

An editor such as Zed starts it, and talks to it over standard input and output; messages are on standard error.
With --log its sessions can be opened again, and rxworker serve on the same log shows them in the browser.
"""
RUNS = """
examples:
  rxworker runs --log sqlite:runs.db list --status cut-off
  rxworker runs --log sqlite:runs.db show run-4fd5696ea3b4
  rxworker runs --log sqlite:runs.db replay run-4fd5696ea3b4 --speed 4
  rxworker runs --log sqlite:runs.db diff run-4fd5696ea3b4 run-93ac17d2e0b8
  rxworker runs --log sqlite:runs.db export run-4fd5696ea3b4 --file run.jsonl
  rxworker runs --log sqlite:runs.db decide run-4fd5696ea3b4 --deny call_1 --reason "too dear"
  rxworker runs --log sqlite:runs.db prune --max-age 30d

What is sent, decided, cancelled or put back is stored in the log; the process that runs the run takes it from there, or the next process of rxworker work
or rxworker serve. decide approves nothing without --approve; without an argument it lists the calls that wait.
"""
ACTIONS = {
    "list": "list runs, the newest first",
    "show": "print the conversation of a run",
    "replay": "print the records of a run as lines of JSON, at the times at which they happened",
    "fork": "copy a run up to a record into a new run, which a worker can continue",
    "diff": "compare two runs, such as a run and its fork",
    "send": "send a message to a run that has not ended",
    "cancel": "cancel a run: one that runs, waits in a queue or is paused",
    "decide": "decide about the calls that a paused run waits for",
    "requeue": "put an aborted run back into the queue, under its id",
    "export": "print a run as lines of JSON, with everything that is stored of it",
    "import": "store a run that was exported",
    "delete": "delete a run",
    "prune": "delete the oldest runs that have ended",
}
WORK = """
examples:
  rxworker work --log sqlite:runs.db my_workers:make_worker
  rxworker work --log sqlite:runs.db my_workers:make_worker --concurrency 32 --kind clerk --tenant-cap 4

It takes runs that were submitted, runs of processes that have ended, and paused runs that were decided about. Any number of such
processes may work on one log. The function takes the RunInfo of a run, or nothing, and returns a Worker.
Ctrl-C and SIGTERM hand over what is running to the others.
"""
SUBMIT = """
examples:
  rxworker submit --log sqlite:runs.db --kind clerk "Book two seats to Kyoto."
  rxworker submit --log sqlite:runs.db --kind clerk --run order-4711 "Book two seats to Kyoto."
"""
DECODE = """
examples:
  rxworker decode anthropic stream.sse
  curl -N ... | rxworker decode openai-chat - --json
"""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise CommandError(f"{message} (see {self.prog} --help)", MISUSED)


class StoreOnce(argparse.Action):
    """Stores an option that carries a permission: of two, the last one would count."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        """Store the value, unless there is one."""
        if getattr(namespace, self.dest, None) is not None:
            parser.error(f"{option_string} is given twice: give it once")
        setattr(namespace, self.dest, values)


def make_parser() -> Parser:
    """The parser of the whole command."""
    parser = Parser(prog="rxworker", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"rxworker {_version()}")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    _add_demo(commands)
    _add_chat(commands)
    _add_serve(commands)
    _add_mcp(commands)
    _add_acp(commands)
    _add_decode(commands)
    _add_runs(commands)
    _add_work(commands)
    _add_submit(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


def _add_command(
    commands: Commands, name: str, about: str, description: str, epilog: str = ""
) -> Parser:
    return commands.add_parser(
        name,
        help=about,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _add_several(parser: Parser, option: str, dest: str, metavar: str, about: str) -> None:
    """Add an option whose values become a list."""
    text = f"{about}; may be given several times"
    parser.add_argument(option, dest=dest, metavar=metavar, action="append", default=[], help=text)


def _add_demo(commands: Commands) -> None:
    about = "one run in several views at once; needs no key and no network"
    add = _add_command(commands, "demo", about, f"Show {about}.").add_argument
    add("--fast", action="store_true", help="without pauses")
    add("--web", action="store_true", help="on a page in the browser")
    add("--port", type=_port, default=8080, help="with --web: the port; 0 for any free one")
    about = "with --web: print the address and do not open the browser"
    add("--no-open", dest="open_page", action="store_false", help=about)


def _add_chat(commands: Commands) -> None:
    about = "talk to a model in the terminal, with tools"
    description = "Talk to a model in the terminal, with tools."
    chat = _add_command(commands, "chat", about, description, CHAT)
    _add_worker(chat, required=True)
    add = chat.add_argument
    add("--plain", action="store_true", help="line by line, and not in full screen")
    about = "without the ready hooks, see below"
    add("--no-hooks", dest="hooks", action="store_false", help=about)
    _add_log(chat)
    _add_several(chat, "--also", "also", "PROVIDER/NAME", "another model to switch to with /model")


def _add_serve(commands: Commands) -> None:
    about = "start, watch and control runs in the browser"
    description = "Serve a page and an API to start, watch and control runs."
    serve = _add_command(commands, "serve", about, description, SERVE)
    add = serve.add_argument
    about = "the function that makes a worker for a conversation; it has the function's name without make_, or NAME"
    add("makers", metavar="[NAME=]MODULE:FUNCTION", nargs="*", help=about)
    add("--host", default="127.0.0.1", help="the address to listen on; by default 127.0.0.1")
    add("--port", type=_port, default=8080, help="the port; by default 8080, 0 for any free one")
    _add_access(serve)
    _add_log(serve)
    about = "start runs of this kind in other processes, with rxworker work"
    _add_several(serve, "--queue", "queue", "KIND", about)
    about = "at the end, how long it serves while /readyz answers 503, for a load balancer; 0"
    add("--close-delay", type=_seconds, default=0.0, metavar="SECONDS", help=about)
    add("--demo", action="store_true", help="a scripted model in place of a provider")
    _add_logging(serve)
    _add_worker(serve, required=False)


def _add_mcp(commands: Commands) -> None:
    about = "serve workers as the tools of an MCP server"
    description = "Serve workers as the tools of an MCP server, over standard input and output."
    mcp = _add_command(commands, "mcp", about, description, MCP)
    add = mcp.add_argument
    about = "the function that makes a worker; the tool has its name without make_, or NAME"
    add("makers", metavar="[NAME=]MODULE:FUNCTION", nargs="*", help=about)
    add("--name", default="worker", help="the name of the tool of --provider; worker")
    add("--description", default="", metavar="TEXT", help="the description of that tool")
    about = "serve streamable HTTP there; 0 for any free port"
    add("--http", type=_host_and_port, metavar="[HOST:]PORT", help=about)
    _add_access(mcp)
    _add_log(mcp)
    add("--demo", action="store_true", help="a scripted model, to try it")
    _add_logging(mcp)
    _add_worker(mcp, required=False)


def _add_acp(commands: Commands) -> None:
    about = "serve a worker to an editor, over the Agent Client Protocol"
    description = (
        "Serve a worker to an editor, over the Agent Client Protocol on standard input and output."
    )
    acp = _add_command(commands, "acp", about, description, ACP)
    add = acp.add_argument
    about = "the function that makes a worker for a session, in place of --provider and --model"
    add("maker", nargs="?", metavar="MODULE:FUNCTION", help=about)
    _add_log(acp, "sessions")
    add("--demo", action="store_true", help="a scripted model in place of a provider")
    _add_logging(acp)
    _add_worker(acp, required=False)


def _add_log(parser: Parser, what: str = "runs") -> None:
    about = f"store the {what} in a log, such as sqlite:runs.db"
    parser.add_argument("--log", metavar="URL", help=about)


def _add_access(parser: Parser) -> None:
    """Add what a server has that other machines can reach."""
    about = "the environment variable that holds the token"
    parser.add_argument("--token-env", metavar="NAME", help=about)
    about = "a name by which the server may be called, such as that of a proxy"
    _add_several(parser, "--allow-host", "allowed_hosts", "NAME", about)


def _add_worker(parser: Parser, *, required: bool) -> None:
    add = parser.add_argument
    add("--provider", required=required, help=f"the provider: {provider_names()}")
    add("--model", required=required, help="the model's name")
    add("--base-url", metavar="URL", help="the address of the service, for your own server")
    add("--api-key-env", metavar="NAME", help="the environment variable that holds the key")
    add("--system", metavar="TEXT", help="the system prompt")
    add("--max-tokens", metavar="N", type=_positive, help="the most tokens of an answer")
    about = "a function that the model may call"
    _add_several(parser, "--tool", "tools", "MODULE:FUNCTION", about)


def _add_decode(commands: Commands) -> None:
    about = "print the content of a captured stream"
    description = "Print the content of a captured stream."
    decode = _add_command(commands, "decode", about, description, DECODE)
    decode.add_argument("provider", metavar="PROVIDER", help=provider_names())
    decode.add_argument("file", metavar="FILE", help="the body of a response; - is standard input")
    decode.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")


def _add_work(commands: Commands) -> None:
    about = "take runs of a queue, in any number of processes"
    description = "Take runs of a queue until it is stopped."
    work = _add_command(commands, "work", about, description, WORK)
    _add_address(work)
    add = work.add_argument
    add("maker", metavar="MODULE:FUNCTION", help="the function that makes a worker for a run")
    add("--concurrency", type=_positive, default=8, metavar="N", help="how many runs at once; 8")
    _add_several(work, "--kind", "kinds", "KIND", "only runs of this kind")
    about = "how many runs of each tenant at once, in all processes"
    add("--tenant-cap", type=_positive, metavar="N", help=about)
    about = "how long running tools may take at the end; 20"
    add("--drain", type=_seconds, default=20.0, metavar="SECONDS", help=about)
    about = "serve /healthz and /readyz there; without a host at all addresses"
    add("--health", type=_host_and_port, metavar="[HOST:]PORT", help=about)
    _add_logging(work)


def _add_address(parser: Parser) -> None:
    about = "the log, for example sqlite:runs.db"
    parser.add_argument("--log", dest="address", required=True, metavar="URL", help=about)


def _add_logging(parser: Parser) -> None:
    add = parser.add_argument
    levels = ("debug", "info", "warning", "error")
    about = "of the messages on standard error, which are not the runs of --log"
    add("--log-level", choices=levels, default="info", help=f"the lowest level {about}; info")
    add("--log-format", choices=("text", "json"), default="text", help=f"the form {about}; text")


def _add_submit(commands: Commands) -> None:
    about = "store a run for rxworker work"
    description = "Store a run for rxworker work, and print its id."
    submit = _add_command(commands, "submit", about, description, SUBMIT)
    _add_address(submit)
    add = submit.add_argument
    add("text", metavar="TEXT", help="the input of the run")
    add("--kind", default="", help="which worker is to run it")
    add("--tenant", default="", help="whose run it is")
    add("--priority", type=int, default=0, metavar="N", help="higher ones are taken first; 0")
    about = "the id of the run, by default a new one; the same id twice is the same run"
    add("--run", dest="run_id", metavar="ID", help=about)


STATUSES = ("queued", "running", "cut-off", "paused", "resumed", "finished", "aborted")


def _add_runs(commands: Commands) -> None:
    about = "list, show, replay, steer, fork, compare, export, import and delete stored runs"
    description = "List, show, replay, steer, fork, compare (diff), export, import and delete the runs of a log."
    runs = _add_command(commands, "runs", about, description, RUNS)
    _add_address(runs)
    actions = runs.add_subparsers(
        dest="action", metavar="action", required=True, parser_class=Parser
    )
    for name, what in ACTIONS.items():
        # Without abbreviations: a misspelt option must not allow anything.
        action = actions.add_parser(
            name,
            help=what,
            description=f"{what.capitalize()}.",
            allow_abbrev=False,
            argument_default=argparse.SUPPRESS,
        )
        add = action.add_argument
        if name not in ("list", "import", "prune"):
            add("run_id", metavar="RUN", help="the id of the run")
        match name:
            case "list":
                add("--status", choices=STATUSES, help="only runs of this status")
                add("--limit", type=_positive, metavar="N", help="at most so many; by default 20")
            case "replay":
                about = "how much faster than it was; 0 for no pauses"
                add("--speed", type=float, metavar="N", help=about)
            case "fork":
                about = "the last record to copy; by default all"
                add("--at", type=_positive, metavar="SEQ", help=about)
            case "diff":
                add("other", metavar="OTHER", help="the id of the run to compare it with")
            case "export":
                add("--file", metavar="FILE", help="by default standard output")
            case "import":
                add("file", metavar="FILE", help="- is standard input")
            case "send":
                add("text", metavar="TEXT", help="the message")
            case "cancel" | "requeue":
                add("--reason", metavar="TEXT", help="why; it is stored")
            case "decide":
                _add_decide(action)
            case "prune":
                about = (
                    "delete runs whose last entry is older, such as 30d, 12h or a number of seconds"
                )
                add("--max-age", type=_duration, metavar="AGE", help=about)
                add("--max-runs", type=_count, metavar="N", help="keep at most so many runs")
                about = "keep at most so many bytes of entries, such as 5G, 300M"
                add("--max-bytes", type=_bytes, metavar="SIZE", help=about)
            case _:
                pass


def _add_decide(action: Parser) -> None:
    add = action.add_argument
    for verb in ("approve", "deny"):
        about = f"{verb} this call; may be given several times"
        add(f"--{verb}", metavar="CALL", action="append", help=about)
    add("--reason", metavar="TEXT", help="with --deny: why, for the model")
    about = 'in place of these: the body of a request to resume, such as {"decisions": {"call_1": {"type": "deny"}}}; - is standard input'
    add("--decisions", metavar="JSON", action=StoreOnce, help=about)
    add("--continue", dest="go_on", action="store_true", help="go on, where no call waits")


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _duration(text: str) -> float:
    try:
        return _seconds(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else _seconds(text)
    except argparse.ArgumentTypeError:
        message = f"{text!r} is not an age, such as 30d, 12h, 90m or a number of seconds"
        raise argparse.ArgumentTypeError(message) from None


def _bytes(text: str) -> int:
    try:
        return _count(text[:-1]) * SIZES[text[-1]] if text[-1:] in SIZES else _count(text)
    except argparse.ArgumentTypeError:
        message = f"{text!r} is not a size, such as 5G, 300M or a number of bytes"
        raise argparse.ArgumentTypeError(message) from None


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return seconds


def _host_and_port(text: str) -> tuple[str | None, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or None, _port(port)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number from 0 to 65535")
    return int(text)


def _version() -> str:
    try:
        return metadata.version("rxworker")
    except metadata.PackageNotFoundError:
        return "(not installed)"
