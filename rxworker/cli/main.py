"""The command line: the options of each command, and the exit code.

A command's modules are imported when it is called, so that ``--help`` is fast and ``decode`` needs no extra.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from sys import float_info
from typing import Any, NoReturn, TypeVar

from rxworker import __version__
from rxworker.cli import exit_at_once, process, restore
from rxworker.cli.providers import provider_names
from rxworker.errors import RxWorkerError

N = TypeVar("N", int, float)


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
        process.prepare_streams()
        code = _run(argv)
        process.flush()
    except process.CommandError as error:
        process.write_error(f"rxworker: {error}")
        return error.code
    except RxWorkerError as error:
        process.write_error(f"rxworker: {process.explain(error)}")
        return process.FAILED
    except BrokenPipeError:
        # The reader of the output has closed the pipe.
        process.silence()
        return 0
    except OSError as error:
        process.write_error(f"rxworker: {error.strerror or error}")
        return process.FAILED
    except KeyboardInterrupt:
        exit_at_once()
        process.write_error("")
        return process.INTERRUPTED
    return code


def _run(argv: Sequence[str] | None) -> int:
    parser = make_parser()
    try:
        args, left = parser.parse_known_args(argv)
    except SystemExit as done:  # --help and --version
        process.flush()
        return done.code if isinstance(done.code, int) else 0
    if left:
        command = f"rxworker {args.command}" if args.command else "rxworker"
        raise process.CommandError(f"unrecognized arguments: {' '.join(left)} (see {command} --help)", process.MISUSED)
    if "function" not in args:
        process.write_error(parser.format_help().rstrip())
        return process.MISUSED
    if "log_level" in args:
        process.set_up_logging(args.log_level, args.log_format)
    module, _, function = args.function.partition(":")
    try:
        imported = import_module(f"rxworker.cli.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "rich":
            raise
        raise process.CommandError(
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


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        """Raise the error."""
        raise process.CommandError(f"{message} (see {self.prog} --help)", process.MISUSED)


def make_parser() -> Parser:
    """The parser of the whole command. The defaults of the options are those of the functions."""
    parser = Parser(prog="rxworker", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"rxworker {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    for name, (function, add_options) in COMMANDS.items():
        command = _add_parser(commands, name)
        command.set_defaults(function=function)
        add_options(command)
    return parser


@cache
def _help() -> dict[str, str]:
    """What ``--help`` prints of each command and of each action of one: a line, then examples and more."""
    text = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^\[(.+)\]\n", text, flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _add_parser(parsers: argparse._SubParsersAction[Parser], name: str, command: str = "") -> Parser:
    about, _, more = _help()[f"{command} {name}".lstrip()].partition("\n")
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


def _add_secret(parser: Parser, option: str, about: str) -> None:
    parser.add_argument(option, metavar="NAME", help=f"the environment variable that holds {about}")


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
    about = 'also record the runs of another program, such as "claude-code --since 1d"; see rxworker tap'
    _add_several(serve, "--tap", "taps", "SOURCE", about)
    about = "send the alerts of the dashboards there; see --alert-secret-env"
    add("--on-alert", metavar="URL", help=about)
    _add_secret(serve, "--alert-secret-env", "the secret that signs alerts")
    about = "at the end, how long it serves while /readyz answers 503, for a load balancer; 0"
    add("--close-delay", type=_seconds, metavar="SECONDS", help=about)
    _add_served(serve)


def _add_tap(tap: Parser, *, has_log: bool = True) -> None:
    sources = tap.add_subparsers(dest="source", metavar="SOURCE", required=True, parser_class=Parser)
    for name, options in TAPPED.items():
        source = _add_parser(sources, name, "tap")
        for option in (_add_address, _add_logging, *options) if has_log else options:
            option(source)


def make_tap_parser() -> Parser:
    """The parser of what ``rxworker serve --tap`` names."""
    parser = Parser(prog="--tap", argument_default=argparse.SUPPRESS)
    _add_tap(parser, has_log=False)
    return parser


def _add_folder(source: Parser) -> None:
    source.add_argument("folder", metavar="FOLDER", nargs="?", help="the folder of the session files")
    about = "leave out session files that have not changed since: a moment, or an age such as 24h, 30d"
    source.add_argument("--since", type=_moment, metavar="TIME", help=about)


def _add_url(source: Parser) -> None:
    source.add_argument("url", metavar="URL", help="the address")
    _add_secret(source, "--token-env", "the token of the address")


def _add_to(source: Parser) -> None:
    source.add_argument("--to", required=True, metavar="URL", help="the address of the service")


def _add_listen(source: Parser) -> None:
    about = "the address to listen on; without a host on this machine alone"
    source.add_argument("--listen", type=_host_and_port, metavar="[HOST:]PORT", help=about)
    _add_secret(source, "--token-env", "the token, which other machines need")


def _add_input(source: Parser) -> None:
    about = "begin a run there with this text; without it, the events are only read"
    source.add_argument("--input", dest="given", metavar="TEXT", help=about)


def _add_labels(source: Parser) -> None:
    source.add_argument("--name", help="the name of the program in lists")
    _add_several(source, "--label", "labels", "NAME=VALUE", "a label of its runs", _label)


TAPPED: dict[str, Sequence[Callable[[Parser], None]]] = {
    "claude-code": (_add_folder, _add_labels),
    "codex": (_add_folder, _add_labels),
    "proxy": (_add_to, _add_listen, _add_labels),
    "otlp": (_add_listen, _add_labels),
    "agui": (_add_url, _add_input, _add_labels),
    "rxworker": (_add_url, _add_labels),
}
"""What adds the options of each source."""


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
    _add_secret(parser, "--token-env", "the token")
    about = "a name by which the server may be called, such as that of a proxy"
    _add_several(parser, "--allow-host", "allowed_hosts", "NAME", about)


def _add_worker(parser: Parser, *, required: bool) -> None:
    parser.set_defaults(options=None)
    add = parser.add_argument
    add("--provider", required=required, help=f"the provider: {provider_names()}")
    add("--model", required=required, help="the model's name")
    add("--base-url", metavar="URL", help="the address of the service, for your own server")
    _add_secret(parser, "--api-key-env", "the key")
    add("--system", metavar="TEXT", help="the system prompt")
    about = "the maximum number of tokens of an answer"
    add("--max-tokens", metavar="N", type=_positive, help=about)
    about = "a function that the model may call"
    _add_several(parser, "--tool", "tools", "MODULE:FUNCTION", about)
    add("--gate", metavar="MODULE:NAME", help="a hold_back(...) that what clients send must pass")


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
    about = "no process takes the run before: seconds since the epoch, ISO 8601, or a time from now such as 24h, 30d"
    add("--at", metavar="TIME", type=_later, help=about)


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
    about = "print it again whenever it has changed, until Ctrl-C"
    add("--follow", action="store_true", help=about)
    about = "also the operators of each panel: what they have emitted, their times and errors"
    add("--explain", dest="explained", action="store_true", help=about)


def _add_lab(lab: Parser) -> None:
    _add_address(lab)
    add = lab.add_argument
    add("candidate", metavar="MODULE:FUNCTION", help="the function that makes the worker that is compared")
    about = "only runs with this: tag:NAME, an annotation that is not false, or NAME=VALUE as in rxworker dash"
    _add_several(lab, "--where", "where", "FILTER", about)
    about = "log: the stored responses; real: the candidate's own model, with a budget; by default log"
    add("--model", choices=("log", "real"), help=about)
    add("--max-cost", type=_amount, metavar="AMOUNT", help="with --model real: what all runs may cost")
    add("--max-tokens", type=_positive, metavar="N", help="with --model real: how many tokens all runs may take")
    about = "real, or real:NAME,NAME: run all tools, or these; by default their results are those of the log"
    add("--tools", metavar="WHICH", help=about)
    add("--group", metavar="LABEL", help="a summary for each value of this label, which the reports then show")
    for form, what in (("html", "an HTML page"), ("junit", "the XML of JUnit"), ("json", "JSON")):
        add(f"--{form}", metavar="FILE", help=f"write the report there as {what}")


def _add_docs(docs: Parser) -> None:
    about = "the name of a page, with # and the name of a section, or words to search for"
    docs.add_argument("words", metavar="PAGE or WORDS", nargs="*", help=about)
    docs.add_argument("--all", dest="whole", action="store_true", help="print all pages")


def _add_providers(providers: Parser) -> None:
    actions = providers.add_subparsers(dest="action", metavar="action", required=True, parser_class=Parser)
    add = _add_parser(actions, "check", "providers").add_argument
    add("model", metavar="MODEL", help="the model's name")
    add("--provider", help="the provider, by default that of the model's maker, or else openai-chat")
    add("--base-url", metavar="URL", help="the address of the service")
    add("--json", dest="as_json", action="store_true", help="print one JSON object")


def _add_new(new: Parser) -> None:
    names = ("chat", "board", "tool-server", "moderator", "fleet")
    new.add_argument("template", choices=names, help=f"what it is: {', '.join(names)}")
    new.add_argument("folder", metavar="FOLDER", help="where, a new or an empty folder")


STATUSES = (
    "queued", "running", "cut-off", "paused", "waiting", "resumed", "finished", "failed", "cancelled", "stopped",
    "aborted",
)  # fmt: skip


def _add_runs(runs: Parser) -> None:
    _add_address(runs)
    actions = runs.add_subparsers(dest="action", metavar="action", required=True, parser_class=Parser)
    for name in [each.removeprefix("runs ") for each in _help() if each.startswith("runs ")]:
        add = _add_parser(actions, name, "runs").add_argument
        if name not in ("list", "import", "prune", "upgrade", "mark-time"):
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
                about = "cut off the response that is being written; before the next request; when the run would end"
                add("--when", choices=("now", "turn", "end"), help=f"{about}; by default turn")
                add("--replaces", metavar="ID", help="the id of a message that waits, in place of which this is sent")
            case "withdraw":
                add("sent", metavar="ID", help="the id of the message, as send has printed it")
            case "deliver":
                add("call_id", metavar="CALL", help="the id of the call, or its idempotency key")
                add("--text", metavar="TEXT", help="the result; - is standard input")
                add("--json", metavar="JSON", help="in place of it: a result that is JSON; - is standard input")
                add("--error", action="store_true", dest="is_error", help="the call has failed")
            case "signal":
                add("name", metavar="NAME", help="the name that a tool waits for, such as paid")
                add("value", metavar="VALUE", nargs="?", default="", help="a JSON object; otherwise a text")
            case "cancel" | "requeue":
                add("--reason", metavar="TEXT", help="why; it is stored")
            case "annotate":
                add("name", metavar="NAME", help="what is judged, such as rating or correct")
                add("value", metavar="VALUE", help="JSON, such as 5 or false; otherwise a text")
                add("--comment", metavar="TEXT", help="why; it is stored")
                add("--by", metavar="NAME", help="the person or the program")
                add("--seq", metavar="SEQ", type=_positive, help="the record that it is about; by default the run")
            case "mark-time":
                add("text", metavar="TEXT", help="what happened, such as a deployment")
                add("--at", metavar="TIME", type=_moment, help="seconds since the epoch, or ISO 8601; by default now")
                add("--by", metavar="NAME", help="the person or the program")
            case "decide":
                _add_decisions(add)
            case "prune":
                _add_bounds(add)
            case _:
                pass


def _add_decisions(add: Callable[..., object]) -> None:
    for verb in ("approve", "deny"):
        add(f"--{verb}", metavar="CALL", action="append", help=f"{verb} this call; may be given several times")
    add("--reason", metavar="TEXT", help="with --deny: why, for the model")
    about = (
        'in place of these: the body of a request to resume, such as {"decisions": {"call_1": {"type": "deny"}}}; - is '
        "standard input"
    )
    add("--decisions", metavar="JSON", action="append", help=about)
    add("--continue", dest="go_on", action="store_true", help="go on, where no call waits")


def _add_bounds(add: Callable[..., object]) -> None:
    about = "delete runs whose last entry is older, such as 30d, 12h or a number of seconds"
    add("--max-age", type=_duration, metavar="AGE", help=about)
    add("--max-runs", type=_count, metavar="N", help="keep at most so many runs")
    add("--max-bytes", type=_bytes, metavar="SIZE", help="keep at most so many bytes of entries, such as 5G, 300M")


COMMANDS: dict[str, tuple[str, Callable[[Parser], None]]] = {
    "demo": ("demo:demo", _add_demo),
    "chat": ("chat:chat", _add_chat),
    "serve": ("serve:serve", _add_serve),
    "mcp": ("protocols:mcp", _add_mcp),
    "acp": ("protocols:acp", _add_acp),
    "decode": ("decode:decode", _add_decode),
    "runs": ("runs:runs", _add_runs),
    "dash": ("dash:dash", _add_dash),
    "lab": ("lab:lab", _add_lab),
    "docs": ("docs:docs", _add_docs),
    "providers": ("check:providers", _add_providers),
    "new": ("new:new", _add_new),
    "tap": ("tap:tap", _add_tap),
    "work": ("work:work", _add_work),
    "submit": ("work:submit", _add_submit),
}
"""The function of each command in a module of this package, and what adds its options."""


UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
SIZES = {"K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def _number(
    kind: type[N], what: str, first: int = 0, last: float = float_info.max, units: Mapping[str, float] = {}
) -> Callable[[str], N]:
    """What reads a number within limits, which may have a unit at its end."""

    def read(text: str) -> N:
        unit = units.get(text[-1:])
        try:
            number = kind(text if unit is None else text[:-1])
        except ValueError:
            number = kind(-1)
        if not first <= number <= last:
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
        return number if unit is None else kind(number * unit)

    return read


_count = _number(int, "a number from 0 up")
_positive = _number(int, "a number above 0", first=1)
_port = _number(int, "a port: a number from 0 to 65535", last=65535)
_bytes = _number(int, "a size, such as 5G, 300M or a number of bytes", units=SIZES)
_seconds = _number(float, "a number of seconds")
_amount = _number(float, "an amount")
_duration = _number(float, "an age, such as 30d, 12h, 90m or a number of seconds", units=UNITS)


def _later(text: str) -> float:
    return time.time() + _duration(text) if text[-1:] in UNITS else _moment(text)


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


def _label(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not a label, such as tenant=acme")
    return name, value


def _host_and_port(text: str) -> tuple[str | None, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or None, _port(port)
