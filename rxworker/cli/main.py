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

    Those of `WORKER` are one.
    """
    common = ("command", "function", "log_level", "log_format")
    given = {name: value for name, value in vars(args).items() if name not in common}
    if WORKER in COMMANDS[args.command].options:
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

    def add_options(self, names: str) -> None:
        """Add options and arguments, with what `FORMS` and ``help.txt`` have of them for this command or for several.

        Args:
            names: Their names, between spaces.
        """
        texts, command = _help(), self.prog.removeprefix("rxworker ").removeprefix("--")
        known = ChainMap(texts[command].options, texts["several"].options)
        for name in names.split():
            form = OPTIONS.get(f"{command} {name}", OPTIONS.get(name, {}))
            given: dict[str, Any] = form if "help" in form else {**form, "help": known[name]}
            self.add_argument(name, **given)

    def add_actions(self, command: str, dest: str, actions: Mapping[str, str]) -> None:
        """Add the actions of a command; see `Command`."""
        parsers = self.add_subparsers(dest=dest, metavar=dest, required=True, parser_class=Parser)
        for name, options in actions.items():
            _add_parser(parsers, name, command).add_options(options)


def make_parser() -> Parser:
    """The parser of the whole command. The defaults of the options are those of the functions."""
    parser = Parser(prog="rxworker", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"rxworker {__version__}")
    parsers = parser.add_subparsers(dest="command", metavar="command", parser_class=Parser)
    for name, command in COMMANDS.items():
        added = _add_parser(parsers, name)
        added.set_defaults(function=command.function)
        added.add_options(command.options)
        if command.actions:
            added.add_actions(name, command.dest, command.actions)
    return parser


def make_tap_parser() -> Parser:
    """The parser of what ``rxworker serve --tap`` names."""
    parser = Parser(prog="rxworker tap", argument_default=argparse.SUPPRESS)
    parser.add_actions("tap", "source", TAPPED)
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


def _is_age(text: str) -> bool:
    return text[-1:] in UNITS and text[:-1].replace(".", "", 1).isdigit()


def _later(text: str) -> float:
    return time.time() + _duration(text) if _is_age(text) else _moment(text)


def _moment(text: str) -> float:
    from rxworker.cli.dash import read_moment

    if _is_age(text):
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


STATUSES = (
    "queued", "running", "cut-off", "paused", "waiting", "resumed", "finished", "failed", "cancelled", "stopped",
    "aborted",
)  # fmt: skip
FORMS: Sequence[tuple[str, dict[str, Any]]] = (
    ("--fast, --demo, --plain, --follow", {"action": "store_true"}),
    ("--json", {"dest": "as_json", "action": "store_true"}),
    ("--explain", {"dest": "explained", "action": "store_true"}),
    ("--all", {"dest": "whole", "action": "store_true"}),
    ("--error", {"dest": "is_error", "action": "store_true"}),
    ("chat --continue", {"dest": "goes_on", "action": "store_true"}),
    ("runs decide --continue", {"dest": "go_on", "action": "store_true"}),
    ("--no-hooks", {"dest": "hooks", "action": "store_false"}),
    ("--no-open", {"dest": "open_page", "action": "store_false"}),
    ("--web", {"dest": "function", "action": "store_const", "const": "serve:demo_web"}),
    ("--system, --description, --reason, --comment, --text, text", {"metavar": "TEXT"}),
    ("--input", {"dest": "given", "metavar": "TEXT"}),
    ("--api-key-env, --token-env, --alert-secret-env, --by, name", {"metavar": "NAME"}),
    ("--base-url, --on-alert, url, chat --log, serve --log, mcp --log, acp --log", {"metavar": "URL"}),
    ("--log", {"dest": "address", "metavar": "URL", "required": True}),
    ("--to", {"metavar": "URL", "required": True}),
    ("--html, --junit, lab --json, --file, file", {"metavar": "FILE"}),
    ("--gate, dashboard", {"metavar": "MODULE:NAME"}),
    ("maker, candidate", {"metavar": "MODULE:FUNCTION"}),
    ("acp maker", {"metavar": "MODULE:FUNCTION", "nargs": "?"}),
    ("makers", {"metavar": "[NAME=]MODULE:FUNCTION", "nargs": "*"}),
    ("words", {"metavar": "PAGE or WORDS", "nargs": "*"}),
    ("tap claude-code folder, tap codex folder", {"metavar": "FOLDER", "nargs": "?"}),
    ("folder", {"metavar": "FOLDER"}),
    ("run_id", {"metavar": "RUN"}),
    ("submit --run", {"metavar": "ID", "dest": "run_id"}),
    ("--replaces, sent", {"metavar": "ID"}),
    ("call_id", {"metavar": "CALL"}),
    ("other", {"metavar": "OTHER"}),
    ("value", {"metavar": "VALUE"}),
    ("runs signal value", {"metavar": "VALUE", "nargs": "?", "default": ""}),
    ("runs deliver --json", {"metavar": "JSON"}),
    ("--tools", {"metavar": "WHICH"}),
    ("--group", {"metavar": "LABEL"}),
    ("model", {"metavar": "MODEL"}),
    ("--provider", {"help": f"the provider: {provider_names()}"}),
    ("providers check --provider", {"metavar": "PROVIDER"}),
    ("decode provider", {"metavar": "PROVIDER", "help": provider_names()}),
    ("--also", {"metavar": "PROVIDER/NAME", "action": "append"}),
    ("--tool", {"dest": "tools", "metavar": "MODULE:FUNCTION", "action": "append"}),
    ("--dashboard", {"dest": "dashboards", "metavar": "MODULE:NAME", "action": "append"}),
    ("--allow-host", {"dest": "allowed_hosts", "metavar": "NAME", "action": "append"}),
    ("--queue", {"metavar": "KIND", "action": "append"}),
    ("work --kind", {"dest": "kinds", "metavar": "KIND", "action": "append"}),
    ("--tap", {"dest": "taps", "metavar": "SOURCE", "action": "append"}),
    ("dash --run", {"dest": "runs", "metavar": "RUN", "action": "append"}),
    ("--approve, --deny", {"metavar": "CALL", "action": "append"}),
    ("--decisions", {"metavar": "JSON", "action": "append"}),
    ("--where", {"metavar": "NAME=VALUE", "action": "append", "type": _filter}),
    ("lab --where", {"metavar": "FILTER", "action": "append"}),
    ("--label", {"dest": "labels", "metavar": "NAME=VALUE", "action": "append", "type": _label}),
    ("runs list --label", {"metavar": "NAME=TEXT", "action": "append", "type": _label}),
    ("--log-level", {"choices": ("debug", "info", "warning", "error"), "default": "info"}),
    ("--log-format", {"choices": ("text", "json"), "default": "text"}),
    ("lab --model", {"choices": ("log", "real")}),
    ("template", {"choices": ("chat", "board", "tool-server", "moderator", "fleet")}),
    ("--status", {"choices": STATUSES}),
    ("--when", {"choices": ("now", "turn", "end")}),
    ("--port", {"type": _port}),
    ("--http, --health, --listen", {"metavar": "[HOST:]PORT", "type": _host_and_port}),
    ("--max-tokens, --width, --concurrency, --tenant-cap, --limit", {"metavar": "N", "type": _positive}),
    ("runs fork --at, --seq", {"metavar": "SEQ", "type": _positive}),
    ("--max-runs", {"metavar": "N", "type": _count}),
    ("--priority", {"metavar": "N", "type": int}),
    ("--speed", {"metavar": "N", "type": float}),
    ("--max-bytes", {"metavar": "SIZE", "type": _bytes}),
    ("--max-age", {"metavar": "AGE", "type": _duration}),
    ("--max-cost", {"metavar": "AMOUNT", "type": _amount}),
    ("--close-delay, --drain", {"metavar": "SECONDS", "type": _seconds}),
    ("--since, --until, --at", {"metavar": "TIME", "type": _moment}),
    ("submit --at", {"metavar": "TIME", "type": _later}),
)
"""How options and arguments are read; after the name of a command: how that command reads it."""
OPTIONS: dict[str, dict[str, Any]] = {name: form for names, form in FORMS for name in names.split(", ")}

LOGGING = "--log-level --log-format"
WORKER = "--provider --model --base-url --api-key-env --system --max-tokens --tool --gate"
SERVED = f"--log --demo {LOGGING} {WORKER}"
REACHED = "--token-env --allow-host"
TAPPED = {
    "claude-code": "folder --since --name --label",
    "codex": "folder --since --name --label",
    "proxy": "--to --listen --token-env --name --label",
    "otlp": "--listen --token-env --name --label",
    "agui": "url --token-env --input --name --label",
    "rxworker": "url --token-env --name --label",
}
"""The options of each source of ``rxworker tap``, which ``rxworker serve --tap`` has too."""


class Command(NamedTuple):
    """A command.

    Attributes:
        function: A module of this package, and the function in it.
        options: Its options and arguments.
        actions: Those of its actions.
        dest: The parameter of its function that takes the name of the action.
    """

    function: str
    options: str = ""
    actions: Mapping[str, str] = {}
    dest: str = "action"


COMMANDS = {
    "demo": Command("demo:demo", "--fast --web --port --no-open"),
    "chat": Command("chat:chat", f"{WORKER} --plain --no-hooks --log --continue --also"),
    "serve": Command(
        "serve:serve",
        f"makers --host --port {REACHED} --queue --dashboard --tap --on-alert --alert-secret-env --close-delay"
        f" {SERVED}",
    ),
    "mcp": Command("protocols:mcp", f"makers --name --description --http {REACHED} {SERVED}"),
    "acp": Command("protocols:acp", f"maker {SERVED}"),
    "decode": Command("decode:decode", "provider file --json"),
    "runs": Command(
        "runs:runs",
        "--log",
        {
            "list": "--status --label --limit",
            "show": "run_id",
            "replay": "run_id --speed",
            "fork": "run_id --at",
            "diff": "run_id other",
            "send": "run_id text --when --replaces",
            "withdraw": "run_id sent",
            "deliver": "run_id call_id --text --json --error",
            "cancel": "run_id --reason",
            "decide": "run_id --approve --deny --reason --decisions --continue",
            "signal": "run_id name value",
            "wake": "run_id",
            "requeue": "run_id --reason",
            "annotate": "run_id name value --comment --by --seq",
            "mark-time": "text --at --by",
            "export": "run_id --file",
            "import": "file",
            "delete": "run_id",
            "prune": "--max-age --max-runs --max-bytes",
            "upgrade": "",
        },
    ),
    "dash": Command("dash:dash", "--log dashboard --run --at --since --until --where --width --follow --explain"),
    "lab": Command(
        "lab:lab", "--log candidate --where --model --max-cost --max-tokens --tools --group --html --junit --json"
    ),
    "docs": Command("docs:docs", "words --all"),
    "providers": Command("check:providers", actions={"check": "model --provider --base-url --json"}),
    "new": Command("new:new", "template folder"),
    "tap": Command(
        "tap:tap", actions={name: f"--log {LOGGING} {options}" for name, options in TAPPED.items()}, dest="source"
    ),
    "work": Command("work:work", f"--log maker --concurrency --kind --tenant-cap --drain --health {LOGGING}"),
    "submit": Command("work:submit", "--log text --kind --tenant --priority --run --at"),
}
