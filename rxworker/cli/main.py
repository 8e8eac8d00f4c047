"""The command line: the options of each command, and the exit code.

A command's modules are imported when it is called, so that ``--help`` is fast and ``decode`` needs no extra.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from sys import float_info
from typing import Any, NamedTuple, NoReturn, TypeVar

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

    def option(self, *names: str, **settings: Any) -> None:
        """Add an option or an argument, with what ``help.txt`` has of it for this command or for several.

        Args:
            names: The option, or the name of the argument.
            settings: As for ``add_argument``.
        """
        known, command = _help(), self.prog.removeprefix("rxworker ").removeprefix("--")
        if "help" not in settings:
            settings["help"] = ChainMap(known[command].options, known["several"].options)[names[0]]
        self.add_argument(*names, **settings)


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


class Help(NamedTuple):
    """What ``--help`` prints of a command, or of an action of one."""

    about: str
    options: dict[str, str]
    more: str


@cache
def _help() -> dict[str, Help]:
    """What ``--help`` prints of each, and, under ``several``, the options that several have."""
    text = Path(__file__).with_name("help.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"^\[(.+)\]\n", text, flags=re.MULTILINE)
    read = re.compile(r"(.*\n)((?:\S+: .+\n)*)([\s\S]*)")
    found = {name: read.findall(part)[0] for name, part in zip(parts[::2], parts[1::2], strict=True)}
    return {
        name: Help(about.strip(), dict(line.split(": ", 1) for line in options.splitlines()), more)
        for name, (about, options, more) in found.items()
    }


def _add_parser(parsers: argparse._SubParsersAction[Parser], name: str, command: str = "") -> Parser:
    about, _, more = _help()[f"{command} {name}".lstrip()]
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


def _add_demo(demo: Parser) -> None:
    add = demo.option
    add("--fast", action="store_true")
    add("--web", dest="function", action="store_const", const="serve:demo_web")
    add("--port", type=_port)
    add("--no-open", dest="open_page", action="store_false")


def _add_chat(chat: Parser) -> None:
    _add_worker(chat)
    add = chat.option
    add("--plain", action="store_true")
    add("--no-hooks", dest="hooks", action="store_false")
    _add_log(chat)
    add("--continue", dest="goes_on", action="store_true")
    add("--also", dest="also", metavar="PROVIDER/NAME", action="append")


def _add_serve(serve: Parser) -> None:
    add = serve.option
    add("makers", metavar="[NAME=]MODULE:FUNCTION", nargs="*")
    add("--host")
    add("--port", type=_port)
    _add_access(serve)
    add("--queue", dest="queue", metavar="KIND", action="append")
    add("--dashboard", dest="dashboards", metavar="MODULE:NAME", action="append")
    add("--tap", dest="taps", metavar="SOURCE", action="append")
    add("--on-alert", metavar="URL")
    add("--alert-secret-env", metavar="NAME")
    add("--close-delay", type=_seconds, metavar="SECONDS")
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
    source.option("folder", metavar="FOLDER", nargs="?")
    source.option("--since", type=_moment, metavar="TIME")


def _add_url(source: Parser) -> None:
    source.option("url", metavar="URL")
    source.option("--token-env", metavar="NAME")


def _add_to(source: Parser) -> None:
    source.option("--to", required=True, metavar="URL")


def _add_listen(source: Parser) -> None:
    source.option("--listen", type=_host_and_port, metavar="[HOST:]PORT")
    source.option("--token-env", metavar="NAME")


def _add_input(source: Parser) -> None:
    source.option("--input", dest="given", metavar="TEXT")


def _add_labels(source: Parser) -> None:
    source.option("--name")
    source.option("--label", dest="labels", metavar="NAME=VALUE", action="append", type=_label)


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
    add = mcp.option
    add("makers", metavar="[NAME=]MODULE:FUNCTION", nargs="*")
    add("--name")
    add("--description", metavar="TEXT")
    add("--http", type=_host_and_port, metavar="[HOST:]PORT")
    _add_access(mcp)
    _add_served(mcp)


def _add_acp(acp: Parser) -> None:
    acp.option("maker", nargs="?", metavar="MODULE:FUNCTION")
    _add_served(acp)


def _add_served(parser: Parser) -> None:
    """Add what all servers have."""
    _add_log(parser)
    parser.option("--demo", action="store_true")
    _add_logging(parser)
    _add_worker(parser)


def _add_log(parser: Parser) -> None:
    parser.option("--log", metavar="URL")


def _add_access(parser: Parser) -> None:
    """Add what a server has that other machines can reach."""
    parser.option("--token-env", metavar="NAME")
    parser.option("--allow-host", dest="allowed_hosts", metavar="NAME", action="append")


def _add_worker(parser: Parser) -> None:
    parser.set_defaults(options=None)
    add = parser.option
    add("--provider", help=f"the provider: {provider_names()}")
    add("--model")
    add("--base-url", metavar="URL")
    add("--api-key-env", metavar="NAME")
    add("--system", metavar="TEXT")
    add("--max-tokens", metavar="N", type=_positive)
    add("--tool", dest="tools", metavar="MODULE:FUNCTION", action="append")
    add("--gate", metavar="MODULE:NAME")


def _add_decode(decode: Parser) -> None:
    decode.option("provider", metavar="PROVIDER", help=provider_names())
    decode.option("file", metavar="FILE")
    decode.option("--json", dest="as_json", action="store_true")


def _add_work(work: Parser) -> None:
    _add_address(work)
    add = work.option
    add("maker", metavar="MODULE:FUNCTION")
    add("--concurrency", type=_positive, metavar="N")
    add("--kind", dest="kinds", metavar="KIND", action="append")
    add("--tenant-cap", type=_positive, metavar="N")
    add("--drain", type=_seconds, metavar="SECONDS")
    add("--health", type=_host_and_port, metavar="[HOST:]PORT")
    _add_logging(work)


def _add_address(parser: Parser) -> None:
    parser.option("--log", dest="address", required=True, metavar="URL")


def _add_logging(parser: Parser) -> None:
    parser.option("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    parser.option("--log-format", choices=("text", "json"), default="text")


def _add_submit(submit: Parser) -> None:
    _add_address(submit)
    add = submit.option
    add("text", metavar="TEXT")
    add("--kind")
    add("--tenant")
    add("--priority", type=int, metavar="N")
    add("--run", dest="run_id", metavar="ID")
    add("--at", metavar="TIME", type=_later)


def _add_dash(dash: Parser) -> None:
    _add_address(dash)
    add = dash.option
    add("dashboard", metavar="MODULE:NAME")
    add("--run", dest="runs", metavar="RUN", action="append")
    add("--at", type=_moment, metavar="TIME")
    add("--since", type=_moment, metavar="TIME")
    add("--until", type=_moment, metavar="TIME")
    add("--where", dest="where", metavar="NAME=VALUE", action="append", type=_filter)
    add("--width", type=_positive, metavar="N")
    add("--follow", action="store_true")
    add("--explain", dest="explained", action="store_true")


def _add_lab(lab: Parser) -> None:
    _add_address(lab)
    add = lab.option
    add("candidate", metavar="MODULE:FUNCTION")
    add("--where", dest="where", metavar="FILTER", action="append")
    add("--model", choices=("log", "real"))
    add("--max-cost", type=_amount, metavar="AMOUNT")
    add("--max-tokens", type=_positive, metavar="N")
    add("--tools", metavar="WHICH")
    add("--group", metavar="LABEL")
    for form in ("--html", "--junit", "--json"):
        add(form, metavar="FILE")


def _add_docs(docs: Parser) -> None:
    docs.option("words", metavar="PAGE or WORDS", nargs="*")
    docs.option("--all", dest="whole", action="store_true")


def _add_providers(providers: Parser) -> None:
    actions = providers.add_subparsers(dest="action", metavar="action", required=True, parser_class=Parser)
    add = _add_parser(actions, "check", "providers").option
    add("model", metavar="MODEL")
    add("--provider")
    add("--base-url", metavar="URL")
    add("--json", dest="as_json", action="store_true")


def _add_new(new: Parser) -> None:
    new.option("template", choices=("chat", "board", "tool-server", "moderator", "fleet"))
    new.option("folder", metavar="FOLDER")


STATUSES = (
    "queued", "running", "cut-off", "paused", "waiting", "resumed", "finished", "failed", "cancelled", "stopped",
    "aborted",
)  # fmt: skip


def _add_runs(runs: Parser) -> None:
    _add_address(runs)
    actions = runs.add_subparsers(dest="action", metavar="action", required=True, parser_class=Parser)
    for name in [each.removeprefix("runs ") for each in _help() if each.startswith("runs ")]:
        add = _add_parser(actions, name, "runs").option
        if name not in ("list", "import", "prune", "upgrade", "mark-time"):
            add("run_id", metavar="RUN")
        match name:
            case "list":
                add("--status", choices=STATUSES)
                add("--label", type=_label, action="append", metavar="NAME=TEXT")
                add("--limit", type=_positive, metavar="N")
            case "replay":
                add("--speed", type=float, metavar="N")
            case "fork":
                add("--at", type=_positive, metavar="SEQ")
            case "diff":
                add("other", metavar="OTHER")
            case "export":
                add("--file", metavar="FILE")
            case "import":
                add("file", metavar="FILE")
            case "send":
                add("text", metavar="TEXT")
                add("--when", choices=("now", "turn", "end"))
                add("--replaces", metavar="ID")
            case "withdraw":
                add("sent", metavar="ID")
            case "deliver":
                add("call_id", metavar="CALL")
                add("--text", metavar="TEXT")
                add("--json", metavar="JSON")
                add("--error", action="store_true", dest="is_error")
            case "signal":
                add("name", metavar="NAME")
                add("value", metavar="VALUE", nargs="?", default="")
            case "cancel" | "requeue":
                add("--reason", metavar="TEXT")
            case "annotate":
                add("name", metavar="NAME")
                add("value", metavar="VALUE")
                add("--comment", metavar="TEXT")
                add("--by", metavar="NAME")
                add("--seq", metavar="SEQ", type=_positive)
            case "mark-time":
                add("text", metavar="TEXT")
                add("--at", metavar="TIME", type=_moment)
                add("--by", metavar="NAME")
            case "decide":
                _add_decisions(add)
            case "prune":
                _add_bounds(add)
            case _:
                pass


def _add_decisions(add: Callable[..., object]) -> None:
    for verb in ("approve", "deny"):
        add(f"--{verb}", metavar="CALL", action="append")
    add("--reason", metavar="TEXT")
    add("--decisions", metavar="JSON", action="append")
    add("--continue", dest="go_on", action="store_true")


def _add_bounds(add: Callable[..., object]) -> None:
    add("--max-age", type=_duration, metavar="AGE")
    add("--max-runs", type=_count, metavar="N")
    add("--max-bytes", type=_bytes, metavar="SIZE")


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
