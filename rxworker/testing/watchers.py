"""Making a test fail when a watcher has raised."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from rxworker.hub.detach import reporters


@contextmanager
def raise_from_watchers() -> Generator[None, None, None]:
    """Raise, at the end of the block, the exceptions of watchers of runs within it.

    A watcher that raises is detached, and the run goes on: an ``assert`` in a subscriber fails no test by itself. This
    holds for all runs of the process while the block runs. As a fixture of pytest, for every test::

        @pytest.fixture(autouse=True)
        def watchers_do_not_raise():
            with raise_from_watchers():
                yield

    Raises:
        BaseException: The exception of a watcher; an exception group of several. If the block itself raises, that is
            raised, with a note for each watcher.

    >>> from rxworker import Worker
    >>> from rxworker.testing import ScriptedModel
    >>> import asyncio
    >>> async def main() -> None:
    ...     run = Worker(ScriptedModel(["Hello!"])).run("Hi")
    ...     def check(record: object) -> None:
    ...         assert record is None, "a record came"
    ...     run.subscribe(check)
    ...     await run
    >>> with raise_from_watchers():
    ...     asyncio.run(main())
    Traceback (most recent call last):
    ...
    AssertionError: a record came
    """
    raised: list[tuple[str, BaseException]] = []

    def report(name: str, error: BaseException) -> None:
        raised.append((name, error))

    reporters.append(report)
    try:
        yield
    except BaseException as error:
        for name, other in raised:
            if other is not error:
                error.add_note(f"watcher {name} has raised {other!r}")
        raise
    finally:
        reporters.remove(report)
    errors = [error for _, error in raised]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise BaseExceptionGroup("watchers have raised", errors)
