"""The command: what its arguments ask for, and how it ends.

What a command needs is imported when it is called, so that ``--help`` is quick and ``decode`` needs no extra.
"""

from __future__ import annotations

from collections.abc import Sequence

from rxworker.cli.failure import FAILED, INTERRUPTED, MISUSED, CommandError, explain, need_rich
from rxworker.cli.output import flush, prepare_streams, silence, write_error
from rxworker.cli.parser import make_parser
from rxworker.cli.startup import restore
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
        # Whoever read our output has seen enough.
        silence()
        return 0
    except OSError as error:
        write_error(f"rxworker: {error.strerror or error}")
        return FAILED
    except KeyboardInterrupt:
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
            from rxworker.cli.demo_web import demo_web

            return demo_web(port=args.port, open_page=not args.no_open, fast=args.fast)
        case "demo":
            need_rich("rxworker demo")
            from rxworker.cli.demo import demo

            return demo(fast=args.fast)
        case "chat":
            need_rich("rxworker chat")
            from rxworker.cli.chat import chat

            return chat(
                args.provider,
                args.model,
                base_url=args.base_url,
                api_key_env=args.api_key_env,
                system=args.system,
                max_tokens=args.max_tokens,
                tools=args.tool,
                plain=args.plain,
                hooks=not args.no_hooks,
            )
        case "serve":
            from rxworker.cli.serve import serve

            return serve(
                args.provider,
                args.model,
                host=args.host,
                port=args.port,
                token_env=args.token_env,
                base_url=args.base_url,
                api_key_env=args.api_key_env,
                system=args.system,
                max_tokens=args.max_tokens,
                tools=args.tool,
                allowed_hosts=args.allow_host,
                demo=args.demo,
            )
        case "decode":
            from rxworker.cli.decode import decode

            return decode(args.provider, args.file, as_json=args.json)
        case _:
            write_error(parser.format_help().rstrip())
            return MISUSED


__all__ = ["main"]
