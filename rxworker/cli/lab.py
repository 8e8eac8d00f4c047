"""``rxworker lab``: stored runs again, against a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from rxworker.cli.process import FAILED, MISUSED, CommandError, run_async, write_line
from rxworker.cli.resolve import import_maker, parameters_of
from rxworker.redact import redact
from rxworker.testing.lab import Outcome, rerun
from rxworker.testing.lab.report import outcome_lines, summary_lines, to_html, to_json, to_junit
from rxworker.testing.lab.stored import read_runs
from rxworker.ui.clean import one_line
from rxworker.worker import Budget


def lab(
    address: str,
    candidate: str,
    *,
    where: Sequence[str] = (),
    model: Literal["log", "real"] = "log",
    tools: str = "log",
    max_cost: float | None = None,
    max_tokens: int | None = None,
    group: str | None = None,
    html: str | None = None,
    junit: str | None = None,
    json: str | None = None,
) -> int:
    """Run stored runs again, print the outcome of each, and write the reports.

    Its arguments are the options of the command; see ``rxworker lab --help``.

    Returns:
        0 if runs did the same and none differs.

    Raises:
        CommandError: An option is wrong, or no run is selected.
        RxWorkerError: The log cannot be read, or the candidate cannot run at all.
    """
    make = import_maker(candidate)
    if needed := [each.name for each in parameters_of(make) if each.default is each.empty]:
        raise CommandError(f"{candidate}: it needs {', '.join(needed)}: name a function without arguments", MISUSED)
    budget = _budget_of(model, max_cost, max_tokens)
    for file in filter(None, (html, junit, json)):
        if not Path(file).parent.is_dir():
            raise CommandError(f"{file}: there is no folder {str(Path(file).parent)!r} for the report", MISUSED)
    kind, _, names = tools.partition(":")
    if kind != "real" and tools != "log":
        raise CommandError("--tools: write real for all, or real:NAME,NAME", MISUSED)
    groups: dict[str, list[Outcome]] = {}

    async def main() -> None:
        for stored in await read_runs(address, where):
            run_really = names.split(",") if names else "log" if tools == "log" else "real"
            outcome = await rerun(stored, make, model=model, tools=run_really, budget=budget)
            name = "" if group is None else one_line(redact(stored.labels.get(group, f"no {group}")))
            groups.setdefault(name, []).append(outcome)
            write_line("\n".join(outcome_lines(outcome)))

    try:
        run_async(main())
    finally:  # also what was found until Ctrl-C, or until the candidate failed
        for line in summary_lines(groups):
            write_line(line)
        for file, form in ((html, to_html), (junit, to_junit), (json, to_json)):
            if file is not None and groups:
                Path(file).write_text(form(groups), encoding="utf-8")
    if not groups:
        raise CommandError("no run is selected: see rxworker runs list, and --where")
    outcomes = [each for several in groups.values() for each in several]
    is_good = any(each.same for each in outcomes) and all(each.status != "differs" for each in outcomes)
    return 0 if is_good else FAILED


def _budget_of(model: str, max_cost: float | None, max_tokens: int | None) -> Budget | None:
    has_budget = max_cost is not None or max_tokens is not None
    if model == "real" and not has_budget:
        raise CommandError("--model real needs a budget: --max-cost AMOUNT or --max-tokens N", MISUSED)
    if model == "log" and has_budget:
        raise CommandError("--max-cost and --max-tokens are the budget of --model real", MISUSED)
    return Budget(max_cost=max_cost, max_tokens=max_tokens) if has_budget else None
