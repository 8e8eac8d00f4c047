"""The command line: the options of each command, and the exit code.

A command's modules are imported when it is called, so that ``--help`` is fast and ``decode`` needs no extra.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from math import inf
from typing import Any, NoReturn

from rxworker import __version__
from rxworker.cli import exit_at_once, restore
from rxworker.cli.process import (
    FAILED,
    INTERRUPTED,
    MISUSED,
    CommandError,
    explain,
    flush,
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
        args, left = parser.parse_known_args(argv)
    except SystemExit as done:  # --help and --version
        flush()
        return done.code if isinstance(done.code, int) else 0
    if left:
        command = f"rxworker {args.command}" if args.command else "rxworker"
        raise CommandError(f"unrecognized arguments: {' '.join(left)} (see {command} --help)", MISUSED)
    if "function" not in args:
        write_error(parser.format_help().rstrip())
        return MISUSED
    if "log_level" in args:
        set_up_logging(args.log_level, args.log_format)
    module, _, function = args.function.partition(":")
    try:
        imported = import_module(f"rxworker.cli.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        raise CommandError(
            f"rxworker {args.command} draws with rich, which is not installed: pip install '/path/to/the/checkout[cli]'"
        ) from error
    return getattr(imported, function)(**_arguments(args))


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The options of a command, which have the names of the parameters of its function.

    Those of `_add_worker` are one.
    """
    common = ("command", "function", "log_level", "log_format")
    given = {name: value for name, value in vars(args).items() if name not in common}
    if "options" in given:
        from rxworker.cli.resolve import WorkerOptions

        fields = given.keys() & WorkerOptions.__struct_fields__
        given["options"] = WorkerOptions(**{name: given.pop(name) for name in fields})
    return given


DESCRIPTION = (
    "Language model responses as observables: see one run in several views, talk to a model, read a captured stream."
)
DEMO = "show one run in several views at once; needs no key and no network"
CHAT = """talk to a model in the terminal, with tools

examples:
  rxworker chat --provider anthropic --model claude-sonnet-5-5
  rxworker chat --provider openai-chat --model llama3.2 --base-url http://127.0.0.1:11434
  rxworker chat --provider anthropic --model claude-sonnet-5-5 --tool my_tools:look_up
  rxworker chat --provider anthropic --model claude-sonnet-5-5 --log sqlite:runs.db
  rxworker chat
  rxworker chat --continue
  echo "Why is the sky blue?" | rxworker chat --provider anthropic --model claude-sonnet-5-5

In a terminal it fills the screen, where textual is installed; F1 shows the keys there, and / the commands.
Without --provider it uses the last model.
With --log, /resume goes on with an earlier conversation, and rxworker serve on the same log shows them in the browser.
Ctrl-C cancels an answer and keeps the conversation; at the prompt, or a second time, it leaves. Ctrl-D leaves.
The ready hooks give the model the time and the git status of changed files, refuse destructive commands, and show
changed files and notices to you.
From a pipe, each line is a message: answers go to standard output, tools and errors to standard error.
"""
SERVE = """serve a page and an API to start, watch and control runs in the browser

examples:
  rxworker serve --demo
  rxworker serve --provider anthropic --model claude-sonnet-5-5 --tool my_tools:look_up
  rxworker serve --log sqlite:runs.db --provider anthropic --model claude-sonnet-5-5
  rxworker serve --log sqlite:runs.db my_workers:make_clerk
  rxworker serve --log sqlite:runs.db --queue clerk
  TOKEN=... rxworker serve --host 0.0.0.0 --token-env TOKEN --provider anthropic --model claude-sonnet-5-5

Only this machine can reach it, unless --host is given; then it needs a token. Ctrl-C ends it, and cancels its runs.
With --log its runs are stored: they are continued when it is started again, or by another server on the same log.
"""
MCP = """serve workers as the tools of an MCP server, over standard input and output

examples:
  rxworker mcp --demo
  rxworker mcp my_workers:make_clerk --log sqlite:runs.db
  rxworker mcp --provider anthropic --model claude-sonnet-5-5 --tool my_tools:look_up --name look_up_agent
  TOKEN=... rxworker mcp my_workers:make_clerk --http 8765 --token-env TOKEN

A client such as Claude Desktop or an editor starts it, and calls each worker as a tool. The function returns a Worker;
its docstring describes the tool. With --http it serves any number of clients, on this machine alone unless a host is
given.
"""
ACP = """serve a worker to an editor, over the Agent Client Protocol

examples:
  rxworker acp --demo
  rxworker acp --provider anthropic --model claude-sonnet-5-5 --tool my_tools:look_up
  rxworker acp --log sqlite:runs.db my_workers:make_worker

An editor such as Zed starts it, and talks to it over standard input and output; messages are on standard error.
With --log its sessions can be opened again, and rxworker serve on the same log shows them in the browser.
"""
RUNS = """list, show, replay, steer, fork, compare, export, import and delete stored runs

examples:
  rxworker runs --log sqlite:runs.db list --status cut-off
  rxworker runs --log sqlite:runs.db show run-4fd5696ea3b4
  rxworker runs --log sqlite:runs.db replay run-4fd5696ea3b4 --speed 4
  rxworker runs --log sqlite:runs.db diff run-4fd5696ea3b4 run-93ac17d2e0b8
  rxworker runs --log sqlite:runs.db export run-4fd5696ea3b4 --file run.jsonl
  rxworker runs --log sqlite:runs.db decide run-4fd5696ea3b4 --deny call_1 --reason "too dear"
  rxworker runs --log sqlite:runs.db prune --max-age 30d

What is sent, decided, cancelled or put back is stored in the log; the process that runs the run takes it from there,
or the next process of rxworker work or rxworker serve. decide approves nothing without --approve; without an argument
it lists the calls that wait.
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
    "upgrade": "store conversations once from now on, in a log that an older version has made",
}
DASH = """print what the panels of a dashboard show of the runs of a log

examples:
  rxworker dash --log sqlite:runs.db my_boards:board
  rxworker dash --log sqlite:runs.db my_boards:board --run run-4fd5696ea3b4
  rxworker dash --log sqlite:runs.db my_boards:board --at 2026-11-26T12:00:00
  rxworker dash --log sqlite:runs.db my_boards:board --since 24h --where tenant=acme --where status=failed
  rxworker dash --log sqlite:runs.db my_boards:board --explain

The name is that of a Dashboard in a module of the current directory, or of an installed one such as
rxworker.panels:USAGE.
"""
DOCS = """print a page of the documentation, or search it

examples:
  rxworker docs
  rxworker docs tools
  rxworker docs tools#which-types
  rxworker docs rate limit
  rxworker docs skill > .claude/skills/rxworker/SKILL.md

The page skill is written for coding assistants. With --all, all pages are one text, for those that read everything.
"""
PROVIDERS = """print what is known of a model, and what a request must keep to at its service

examples:
  rxworker providers check claude-opus-5-5
  rxworker providers check mistral-large-2512 --base-url https://api.mistral.ai
  rxworker providers check my-model --provider ollama --json

Nothing is sent, and no key is needed. The exit code is 1 if the model is not in the table, or has ended.
"""
NEW = """write a project to start from

examples:
  rxworker new chat desk
  rxworker new board my-board

templates:
  chat         a worker with tools and approvals, on a page
  board        a dashboard over many runs
  tool-server  a worker as a tool of other programs, over MCP
  moderator    text that is checked before it is shown, and a board of findings
  fleet        a queue of runs, and processes that take them

Each has a README.md with the commands that start and test it, and answers from a script until a key is set.
"""
WORK = """take runs of a queue, in any number of processes

examples:
  rxworker work --log sqlite:runs.db my_workers:make_worker
  rxworker work --log sqlite:runs.db my_workers:make_worker --concurrency 32 --kind clerk --tenant-cap 4

It takes runs that were submitted, runs of processes that have ended, and paused runs that were decided about. Any
number of such processes may work on one log. The function takes the RunInfo of a run, or nothing, and returns a Worker.
Ctrl-C and SIGTERM hand over what is running to the others.
"""
SUBMIT = """store a run for rxworker work, and print its id

examples:
  rxworker submit --log sqlite:runs.db --kind clerk "Book two seats to Kyoto."
  rxworker submit --log sqlite:runs.db --kind clerk --run order-4711 "Book two seats to Kyoto."
"""
DECODE = """print the content of a captured stream

examples:
  rxworker decode anthropic stream.sse
  curl -N ... | rxworker decode openai-chat - --json
"""


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise CommandError(f"{message} (see {self.prog} --help)", MISUSED)


def make_parser() -> Parser:
    """The parser of the whole command. The defaults of the options are those of the functions."""
    parser = Parser(prog="rxworker", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"rxworker {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    for name, (function, text, add_options) in COMMANDS.items():
        command = _add_parser(commands, name, text)
        command.set_defaults(function=function)
        add_options(command)
    return parser


def _add_parser(parsers: argparse._SubParsersAction[Parser], name: str, text: str) -> Parser:
    about, _, more = text.partition("\n")
    # Without abbreviations: a misspelt option must not allow anything.
    return parsers.add_parser(
        name,
        help=about,
        description=f"{about[0].upper()}{about[1:]}.",
        epilog=more,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        argument_default=argparse.SUPPRESS,
    )


def _add_several(
    parser: Parser, option: str, dest: str, metavar: str, about: str, read: Callable[[str], object] = str
) -> None:
    """Add an option whose values become a list."""
    text = f"{about}; may be given several times"
    parser.add_argument(option, dest=dest, metavar=metavar, action="append", type=read, help=text)


def _add_demo(demo: Parser) -> None:
    add = demo.add_argument
    add("--fast", action="store_true", help="without pauses")
    about = "on a page in the browser"
    add("--web", dest="function", action="store_const", const="serve:demo_web", help=about)
    add("--port", type=_port, help="with --web: the port; by default 8080, 0 for any free one")
    about = "with --web: print the address and do not open the browser"
    add("--no-open", dest="open_page", action="store_false", help=about)


def _add_chat(chat: Parser) -> None:
    _add_worker(chat, required=False)
    add = chat.add_argument
    add("--plain", action="store_true", help="line by line, and not in full screen")
    about = "without the ready hooks, see below"
    add("--no-hooks", dest="hooks", action="store_false", help=about)
    _add_log(chat)
    about = "continue the last conversation, in --log or in the log that was used last"
    add("--continue", dest="goes_on", action="store_true", help=about)
    _add_several(chat, "--also", "also", "PROVIDER/NAME", "another model to switch to with /model")


def _add_serve(serve: Parser) -> None:
    add = serve.add_argument
    about = "the function that makes a worker for a conversation; it has the function's name without make_, or NAME"
    add("makers", metavar="[NAME=]MODULE:FUNCTION", nargs="*", help=about)
    add("--host", help="the address to listen on; by default 127.0.0.1")
    add("--port", type=_port, help="the port; by default 8080, 0 for any free one")
    _add_access(serve)
    about = "start runs of this kind in other processes, with rxworker work"
    _add_several(serve, "--queue", "queue", "KIND", about)
    about = "a dashboard that the page shows, in place of the ready ones"
    _add_several(serve, "--dashboard", "dashboards", "MODULE:NAME", about)
    about = "send the alerts of the dashboards there; see --alert-secret-env"
    add("--on-alert", metavar="URL", help=about)
    about = "the environment variable that holds the secret that signs alerts"
    add("--alert-secret-env", metavar="NAME", help=about)
    about = "at the end, how long it serves while /readyz answers 503, for a load balancer; 0"
    add("--close-delay", type=_seconds, metavar="SECONDS", help=about)
    _add_served(serve)


def _add_mcp(mcp: Parser) -> None:
    add = mcp.add_argument
    about = "the function that makes a worker; the tool has its name without make_, or NAME"
    add("makers", metavar="[NAME=]MODULE:FUNCTION", nargs="*", help=about)
    add("--name", help="the name of the tool of --provider; worker")
    add("--description", metavar="TEXT", help="the description of that tool")
    about = "serve streamable HTTP there; 0 for any free port"
    add("--http", type=_host_and_port, metavar="[HOST:]PORT", help=about)
    _add_access(mcp)
    _add_served(mcp)


def _add_acp(acp: Parser) -> None:
    about = "the function that makes a worker for a session, in place of --provider and --model"
    acp.add_argument("maker", nargs="?", metavar="MODULE:FUNCTION", help=about)
    _add_served(acp)


def _add_served(parser: Parser) -> None:
    """Add what all servers have."""
    _add_log(parser)
    parser.add_argument("--demo", action="store_true", help="a scripted model in place of a provider")
    _add_logging(parser)
    _add_worker(parser, required=False)


def _add_log(parser: Parser) -> None:
    parser.add_argument("--log", metavar="URL", help="store the runs in a log, such as sqlite:runs.db")


def _add_access(parser: Parser) -> None:
    """Add what a server has that other machines can reach."""
    about = "the environment variable that holds the token"
    parser.add_argument("--token-env", metavar="NAME", help=about)
    about = "a name by which the server may be called, such as that of a proxy"
    _add_several(parser, "--allow-host", "allowed_hosts", "NAME", about)


def _add_worker(parser: Parser, *, required: bool) -> None:
    parser.set_defaults(options=None)
    add = parser.add_argument
    add("--provider", required=required, help=f"the provider: {provider_names()}")
    add("--model", required=required, help="the model's name")
    add("--base-url", metavar="URL", help="the address of the service, for your own server")
    add("--api-key-env", metavar="NAME", help="the environment variable that holds the key")
    add("--system", metavar="TEXT", help="the system prompt")
    about = "the maximum number of tokens of an answer"
    add("--max-tokens", metavar="N", type=_positive, help=about)
    about = "a function that the model may call"
    _add_several(parser, "--tool", "tools", "MODULE:FUNCTION", about)


def _add_decode(decode: Parser) -> None:
    decode.add_argument("provider", metavar="PROVIDER", help=provider_names())
    decode.add_argument("file", metavar="FILE", help="the body of a response; - is standard input")
    decode.add_argument("--json", dest="as_json", action="store_true", help="print one JSON object")


def _add_work(work: Parser) -> None:
    _add_address(work)
    add = work.add_argument
    add("maker", metavar="MODULE:FUNCTION", help="the function that makes a worker for a run")
    add("--concurrency", type=_positive, metavar="N", help="how many runs at once; 8")
    _add_several(work, "--kind", "kinds", "KIND", "only runs of this kind")
    about = "how many runs of each tenant at once, in all processes"
    add("--tenant-cap", type=_positive, metavar="N", help=about)
    about = "how long running tools may take at the end; 20"
    add("--drain", type=_seconds, metavar="SECONDS", help=about)
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


def _add_submit(submit: Parser) -> None:
    _add_address(submit)
    add = submit.add_argument
    add("text", metavar="TEXT", help="the input of the run")
    add("--kind", help="which worker is to run it")
    add("--tenant", help="whose run it is")
    add("--priority", type=int, metavar="N", help="higher ones are taken first; 0")
    about = "the id of the run, by default a new one; the same id twice is the same run"
    add("--run", dest="run_id", metavar="ID", help=about)


def _add_dash(dash: Parser) -> None:
    _add_address(dash)
    add = dash.add_argument
    add("dashboard", metavar="MODULE:NAME", help="the dashboard")
    _add_several(dash, "--run", "runs", "RUN", "only this run")
    about = (
        "the moment that is shown: seconds since the epoch, or a date and a time; by default that of the last record"
    )
    add("--at", type=_moment, metavar="TIME", help=about)
    about = "only what was recorded then or later: a time as for --at, or an age such as 24h, 30d"
    add("--since", type=_moment, metavar="TIME", help=about)
    add("--until", type=_moment, metavar="TIME", help="only what was recorded before")
    about = "only runs with this: tenant=acme, user=, label=NAME=VALUE, worker=, model=, tool=, status=, text="
    _add_several(dash, "--where", "where", "NAME=VALUE", about, _filter)
    add("--width", type=_positive, metavar="N", help="how many columns; those of the terminal")
    about = "also the operators of each panel: what they have emitted, their times and errors"
    add("--explain", dest="explained", action="store_true", help=about)


def _add_docs(docs: Parser) -> None:
    about = "the name of a page, with # and the name of a section, or words to search for"
    docs.add_argument("words", metavar="PAGE or WORDS", nargs="*", help=about)
    docs.add_argument("--all", dest="whole", action="store_true", help="print all pages")


def _add_providers(providers: Parser) -> None:
    actions = providers.add_subparsers(dest="action", metavar="action", required=True, parser_class=Parser)
    add = _add_parser(actions, "check", "print what is known of a model, and what a request must keep to").add_argument
    add("model", metavar="MODEL", help="the model's name")
    add("--provider", help="the provider, by default that of the model's maker, or else openai-chat")
    add("--base-url", metavar="URL", help="the address of the service")
    add("--json", dest="as_json", action="store_true", help="print one JSON object")


def _add_new(new: Parser) -> None:
    names = ("chat", "board", "tool-server", "moderator", "fleet")
    new.add_argument("template", choices=names, help=f"what it is: {', '.join(names)}")
    new.add_argument("folder", metavar="FOLDER", help="where, a new or an empty folder")


STATUSES = (
    "queued", "running", "cut-off", "paused", "resumed", "finished", "failed", "cancelled", "stopped", "aborted",
)  # fmt: skip


def _add_runs(runs: Parser) -> None:
    _add_address(runs)
    actions = runs.add_subparsers(dest="action", metavar="action", required=True, parser_class=Parser)
    for name, what in ACTIONS.items():
        add = _add_parser(actions, name, what).add_argument
        if name not in ("list", "import", "prune", "upgrade"):
            add("run_id", metavar="RUN", help="the id of the run")
        match name:
            case "list":
                add("--status", choices=STATUSES, help="only runs of this status")
                about = "only runs with this label; several times for several labels"
                add("--label", type=_label, action="append", metavar="NAME=TEXT", help=about)
                add("--limit", type=_positive, metavar="N", help="at most so many; by default 20")
            case "replay":
                about = "how many times faster than the run was; 0 for no pauses"
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
                for verb in ("approve", "deny"):
                    about = f"{verb} this call; may be given several times"
                    add(f"--{verb}", metavar="CALL", action="append", help=about)
                add("--reason", metavar="TEXT", help="with --deny: why, for the model")
                about = (
                    'in place of these: the body of a request to resume, such as {"decisions": {"call_1": {"type":'
                    ' "deny"}}}; - is standard input'
                )
                add("--decisions", metavar="JSON", action="append", help=about)
                about = "go on, where no call waits"
                add("--continue", dest="go_on", action="store_true", help=about)
            case "prune":
                about = "delete runs whose last entry is older, such as 30d, 12h or a number of seconds"
                add("--max-age", type=_duration, metavar="AGE", help=about)
                add("--max-runs", type=_count, metavar="N", help="keep at most so many runs")
                about = "keep at most so many bytes of entries, such as 5G, 300M"
                add("--max-bytes", type=_bytes, metavar="SIZE", help=about)
            case _:
                pass


COMMANDS: dict[str, tuple[str, str, Callable[[Parser], None]]] = {
    "demo": ("demo:demo", DEMO, _add_demo),
    "chat": ("chat:chat", CHAT, _add_chat),
    "serve": ("serve:serve", SERVE, _add_serve),
    "mcp": ("protocols:mcp", MCP, _add_mcp),
    "acp": ("protocols:acp", ACP, _add_acp),
    "decode": ("decode:decode", DECODE, _add_decode),
    "runs": ("runs:runs", RUNS, _add_runs),
    "dash": ("dash:dash", DASH, _add_dash),
    "docs": ("docs:docs", DOCS, _add_docs),
    "providers": ("check:providers", PROVIDERS, _add_providers),
    "new": ("new:new", NEW, _add_new),
    "work": ("work:work", WORK, _add_work),
    "submit": ("work:submit", SUBMIT, _add_submit),
}
"""The function of each command in a module of this package, its help, and what adds its options.

The help is a line, then examples and more.
"""


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _duration(text: str) -> float:
    return _scaled(text, UNITS, _seconds, "an age, such as 30d, 12h, 90m or a number of seconds")


def _moment(text: str) -> float:
    from rxworker.cli.dash import read_moment

    if text[-1:] in UNITS:
        return time.time() - _duration(text)
    try:
        return read_moment(text)
    except ValueError:
        about = "a moment, such as 2026-11-26T12:00:00, an age such as 24h, or seconds since the epoch"
        raise argparse.ArgumentTypeError(f"{text!r} is not {about}") from None


def _filter(text: str) -> tuple[str, str]:
    name, is_there, value = text.partition("=")
    if not is_there:
        raise argparse.ArgumentTypeError(f"{text!r} is not a filter, such as tenant=acme or label=NAME=VALUE")
    return name, value


def _bytes(text: str) -> int:
    return int(_scaled(text, SIZES, _count, "a size, such as 5G, 300M or a number of bytes"))


def _scaled(text: str, units: Mapping[str, float], read: Callable[[str], float], what: str) -> float:
    unit = units.get(text[-1:])
    try:
        return read(text) if unit is None else read(text[:-1]) * unit
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from None


def _count(text: str) -> int:
    return _whole(text, "a number from 0 up")


def _positive(text: str) -> int:
    return _whole(text, "a number above 0", first=1)


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a label, such as tenant=acme")
    return name, value


def _port(text: str) -> int:
    return _whole(text, "a port: a number from 0 to 65535", last=65535)


def _whole(text: str, what: str, first: int = 0, last: float = inf) -> int:
    if not (text.isascii() and text.isdecimal() and first <= int(text) <= last):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
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
