"""The command line: the options of each command, and the exit code.

A command's modules are imported when it is called, so that ``--help`` is fast and ``decode`` needs no extra.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib import metadata
from math import inf
from typing import TYPE_CHECKING, NoReturn

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

if TYPE_CHECKING:
    from rxworker.cli.resolve import WorkerOptions


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
            from rxworker.cli.serve import demo_web

            return demo_web(port=args.port, open_page=not args.no_open, fast=args.fast)
        case "demo":
            need_rich("rxworker demo")
            from rxworker.cli.demo import demo

            return demo(fast=args.fast)
        case "chat":
            need_rich("rxworker chat")
            from rxworker.cli.chat import chat

            return chat(
                _worker_options(args),
                plain=args.plain,
                hooks=not args.no_hooks,
                also=args.also,
                log=args.log,
            )
        case "serve":
            from rxworker.cli.serve import serve

            set_up_logging(args.log_level, args.log_format)
            return serve(
                _worker_options(args),
                makers=args.maker,
                host=args.host,
                port=args.port,
                token_env=args.token_env,
                allowed_hosts=args.allow_host,
                demo=args.demo,
                log=args.log,
                queue=args.queue,
                close_delay=args.close_delay,
            )
        case "mcp":
            need_mcp()
            from rxworker.cli.protocols import mcp

            set_up_logging(args.log_level, args.log_format)
            return mcp(
                args.maker,
                _worker_options(args),
                name=args.name,
                description=args.description,
                http=args.http,
                token_env=args.token_env,
                allowed_hosts=args.allow_host,
                demo=args.demo,
                log=args.log,
            )
        case "acp":
            from rxworker.cli.protocols import acp

            set_up_logging(args.log_level, args.log_format)
            return acp(
                args.maker,
                _worker_options(args),
                demo=args.demo,
                log=args.log,
            )
        case "decode":
            from rxworker.cli.decode import decode

            return decode(args.provider, args.file, as_json=args.json)
        case "work":
            from rxworker.cli.work import work

            set_up_logging(args.log_level, args.log_format)
            return work(
                args.log,
                args.maker,
                concurrency=args.concurrency,
                kinds=args.kind,
                tenant_cap=args.tenant_cap,
                drain=args.drain,
                health=args.health,
            )
        case "submit":
            from rxworker.cli.work import submit

            return submit(
                args.log,
                args.input,
                kind=args.kind,
                tenant=args.tenant,
                priority=args.priority,
                run=args.run,
            )
        case "runs":
            from rxworker.cli.runs import Options, runs

            given = {
                name: value
                for name, value in vars(args).items()
                if name in Options.__struct_fields__
            }
            return runs(args.log, args.action, Options(**given))
        case _:
            write_error(parser.format_help().rstrip())
            return MISUSED


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


def _add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "one run in several views at once; needs no key and no network"
    demo = commands.add_parser("demo", help=about, description=f"Show {about}.")
    demo.add_argument("--fast", action="store_true", help="without pauses")
    demo.add_argument("--web", action="store_true", help="on a page in the browser")
    demo.add_argument(
        "--port", type=_port, default=8080, help="with --web: the port; 0 for any free one"
    )
    demo.add_argument(
        "--no-open",
        action="store_true",
        help="with --web: print the address and do not open the browser",
    )


def _add_chat(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "talk to a model in the terminal, with tools"
    chat = commands.add_parser(
        "chat",
        help=about,
        description="Talk to a model in the terminal, with tools.",
        epilog=CHAT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_worker(chat, required=True)
    chat.add_argument("--plain", action="store_true", help="line by line, and not in full screen")
    chat.add_argument("--no-hooks", action="store_true", help="without the ready hooks, see below")
    chat.add_argument(
        "--log", metavar="URL", help="store the runs in a log, such as sqlite:runs.db"
    )
    chat.add_argument(
        "--also",
        metavar="PROVIDER/NAME",
        action="append",
        default=[],
        help="another model to switch to with /model; may be given several times",
    )


def _add_serve(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "start, watch and control runs in the browser"
    serve = commands.add_parser(
        "serve",
        help=about,
        description="Serve a page and an API to start, watch and control runs.",
        epilog=SERVE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = serve.add_argument
    about = "the function that makes a worker for a conversation; it has the function's name without make_, or NAME"
    add("maker", metavar="[NAME=]MODULE:FUNCTION", nargs="*", help=about)
    add("--host", default="127.0.0.1", help="the address to listen on; by default 127.0.0.1")
    add("--port", type=_port, default=8080, help="the port; by default 8080, 0 for any free one")
    add("--token-env", metavar="NAME", help="the environment variable that holds the token")
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which the server may be called, such as that of a proxy; may be given several times",
    )
    add("--log", metavar="URL", help="store the runs in a log, such as sqlite:runs.db")
    add(
        "--queue",
        metavar="KIND",
        action="append",
        default=[],
        help="start runs of this kind in other processes, with rxworker work; may be given several times",
    )
    add(
        "--close-delay",
        type=_seconds,
        default=0.0,
        metavar="SECONDS",
        help="at the end, how long it serves while /readyz answers 503, for a load balancer; 0",
    )
    add("--demo", action="store_true", help="a scripted model in place of a provider")
    _add_logging(serve)
    _add_worker(serve, required=False)


def _add_mcp(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "serve workers as the tools of an MCP server"
    mcp = commands.add_parser(
        "mcp",
        help=about,
        description="Serve workers as the tools of an MCP server, over standard input and output.",
        epilog=MCP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = mcp.add_argument
    add(
        "maker",
        metavar="[NAME=]MODULE:FUNCTION",
        nargs="*",
        help="the function that makes a worker; the tool has its name without make_, or NAME",
    )
    add("--name", default="worker", help="the name of the tool of --provider; worker")
    add("--description", default="", metavar="TEXT", help="the description of that tool")
    add(
        "--http",
        type=_host_and_port,
        metavar="[HOST:]PORT",
        help="serve streamable HTTP there; 0 for any free port",
    )
    add("--token-env", metavar="NAME", help="the environment variable that holds the token")
    add(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name by which the server may be called, such as that of a proxy; may be given several times",
    )
    add("--log", metavar="URL", help="store the runs in a log, such as sqlite:runs.db")
    add("--demo", action="store_true", help="a scripted model, to try it")
    _add_logging(mcp)
    _add_worker(mcp, required=False)


def _add_acp(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "serve a worker to an editor, over the Agent Client Protocol"
    acp = commands.add_parser(
        "acp",
        help=about,
        description="Serve a worker to an editor, over the Agent Client Protocol on standard input and output.",
        epilog=ACP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = acp.add_argument
    about = "the function that makes a worker for a session, in place of --provider and --model"
    add("maker", nargs="?", metavar="MODULE:FUNCTION", help=about)
    add("--log", metavar="URL", help="store the sessions in a log, such as sqlite:runs.db")
    add("--demo", action="store_true", help="a scripted model in place of a provider")
    _add_logging(acp)
    _add_worker(acp, required=False)


def _add_worker(parser: Parser, *, required: bool) -> None:
    add = parser.add_argument
    add("--provider", required=required, help=f"the provider: {provider_names()}")
    add("--model", required=required, help="the model's name")
    add("--base-url", metavar="URL", help="the address of the service, for your own server")
    add("--api-key-env", metavar="NAME", help="the environment variable that holds the key")
    add("--system", metavar="TEXT", help="the system prompt")
    add("--max-tokens", metavar="N", type=_positive, help="the most tokens of an answer")
    add(
        "--tool",
        metavar="MODULE:FUNCTION",
        action="append",
        default=[],
        help="a function that the model may call; may be given several times",
    )


def _worker_options(args: argparse.Namespace) -> WorkerOptions:
    """The values of the options of `_add_worker`."""
    from rxworker.cli.resolve import WorkerOptions

    return WorkerOptions(
        args.provider,
        args.model,
        args.base_url,
        args.api_key_env,
        args.system,
        args.max_tokens,
        args.tool,
    )


def _add_decode(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "print the content of a captured stream"
    decode = commands.add_parser(
        "decode",
        help=about,
        description="Print the content of a captured stream.",
        epilog=DECODE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    decode.add_argument("provider", metavar="PROVIDER", help=provider_names())
    decode.add_argument("file", metavar="FILE", help="the body of a response; - is standard input")
    decode.add_argument("--json", action="store_true", help="print one JSON object")


def _add_work(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "take runs of a queue, in any number of processes"
    work = commands.add_parser(
        "work",
        help=about,
        description="Take runs of a queue until it is stopped.",
        epilog=WORK,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = work.add_argument
    add("--log", required=True, metavar="URL", help="the log, for example sqlite:runs.db")
    add("maker", metavar="MODULE:FUNCTION", help="the function that makes a worker for a run")
    add("--concurrency", type=_positive, default=8, metavar="N", help="how many runs at once; 8")
    add(
        "--kind",
        action="append",
        default=[],
        metavar="KIND",
        help="only runs of this kind; may be given several times",
    )
    add(
        "--tenant-cap",
        type=_positive,
        metavar="N",
        help="how many runs of each tenant at once, in all processes",
    )
    add(
        "--drain",
        type=_seconds,
        default=20.0,
        metavar="SECONDS",
        help="how long running tools may take at the end; 20",
    )
    add(
        "--health",
        type=_host_and_port,
        metavar="[HOST:]PORT",
        help="serve /healthz and /readyz there; without a host at all addresses",
    )
    _add_logging(work)


def _add_logging(parser: Parser) -> None:
    add = parser.add_argument
    levels = ("debug", "info", "warning", "error")
    about = "of the messages on standard error, which are not the runs of --log"
    add("--log-level", choices=levels, default="info", help=f"the lowest level {about}; info")
    add("--log-format", choices=("text", "json"), default="text", help=f"the form {about}; text")


def _add_submit(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "store a run for rxworker work"
    submit = commands.add_parser(
        "submit",
        help=about,
        description="Store a run for rxworker work, and print its id.",
        epilog=SUBMIT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = submit.add_argument
    add("--log", required=True, metavar="URL", help="the log, for example sqlite:runs.db")
    add("input", metavar="TEXT", help="the input of the run")
    add("--kind", default="", help="which worker is to run it")
    add("--tenant", default="", help="whose run it is")
    add("--priority", type=int, default=0, metavar="N", help="higher ones are taken first; 0")
    about = "the id of the run, by default a new one; the same id twice is the same run"
    add("--run", metavar="ID", help=about)


def _add_runs(commands: argparse._SubParsersAction[Parser]) -> None:
    about = "list, show, replay, steer, fork, compare, export, import and delete stored runs"
    runs = commands.add_parser(
        "runs",
        help=about,
        description="List, show, replay, steer, fork, compare (diff), export, import and delete the runs of a log.",
        epilog=RUNS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    runs.add_argument(
        "--log", required=True, metavar="ADDRESS", help="the log, for example sqlite:runs.db"
    )
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
            add("run", metavar="RUN", help="the id of the run")
        match name:
            case "list":
                states = [
                    "queued",
                    "running",
                    "cut-off",
                    "paused",
                    "resumed",
                    "finished",
                    "aborted",
                ]
                add("--status", choices=states, help="only runs of this status")
                add("--limit", type=_positive, metavar="N", help="at most so many; by default 20")
            case "replay":
                add(
                    "--speed",
                    type=float,
                    metavar="N",
                    help="how much faster than it was; 0 for no pauses",
                )
            case "fork":
                add(
                    "--at",
                    type=_positive,
                    metavar="SEQ",
                    help="the last record to copy; by default all",
                )
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
