"""``rxworker lab``: stored runs again, against a candidate, and their outcomes as text, HTML, JUnit's XML and JSON.

No label is shown, but the one by which the runs are grouped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Literal, TypeAlias
from xml.etree import ElementTree

import msgspec

from rxworker.cli.process import FAILED, MISUSED, CommandError, run_async, write_line
from rxworker.cli.resolve import import_maker, parameters_of
from rxworker.redact import redact
from rxworker.testing.lab.rerun import Outcome, Spent, read_runs, rerun
from rxworker.ui.clean import one_line
from rxworker.ui.describe import plural
from rxworker.views.amounts import money
from rxworker.worker import Budget

Groups: TypeAlias = Mapping[str, Sequence[Outcome]]
"""The outcomes by the values of a label; by the empty text, if they are not grouped."""
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2em}td{border-top:1px solid #8886;padding:.3em .8em;"
    "vertical-align:top;overflow-wrap:anywhere;unicode-bidi:isolate}.differs{color:#b00020}.same{color:#0a7a3c}"
)


def outcome_lines(outcome: Outcome) -> list[str]:
    """One outcome in words.

    >>> outcome_lines(Outcome("run-1", "same", before=Spent(7, 2), after=Spent(7, 2)))
    ['run-1 same: 7 tokens in, 2 out, cost unknown']
    """
    head, took = f"{outcome.run_id} {outcome.status}", _took([outcome])
    if (found := outcome.difference) is not None:
        return [f"{head} at record {found.record}: {took}", f"  it was    {found.before}", f"  it is now {found.after}"]
    return [f"{head}: {outcome.reason or took}"]


def summary_lines(groups: Groups) -> list[str]:
    """How many outcomes of which kind each group has, and all of several groups.

    >>> summary_lines({"acme": [Outcome("run-1", "same", before=Spent(7, 2))]})
    ['acme: 1 run, 1 same, 0 differ, 0 not rerun; 7 tokens in, 2 out, cost unknown']
    """
    whole = [each for several in groups.values() for each in several]
    rows = [*groups.items(), *([("all", whole)] if len(groups) > 1 else [])]
    return [f"{name}: {_counts(several)}; {_took(several)}".removeprefix(": ") for name, several in rows]


def _counts(several: Sequence[Outcome]) -> str:
    of = Counter(each.status for each in several)
    return f"{plural(len(several), 'run')}, {of['same']} same, {of['differs']} differ, {of['not rerun']} not rerun"


def _took(several: Sequence[Outcome]) -> str:
    """What runs took before, and after if that is known of any and is not the same."""
    before, after = spent(each.before for each in several), spent(each.after for each in several)
    is_known = any(each.after is not None for each in several)
    return f"{before} before; {after} after" if is_known and after != before else before


def spent(several: Iterable[Spent | None]) -> str:
    """What runs took together; of how many something is not known is shown, and not counted as nought.

    >>> spent([Spent(1200, 30, 0.5, "USD"), Spent(800)])
    '2,000 tokens in, 30 and 1 unknown out, cost 0.5 USD and 1 unknown'
    """
    some = [each or Spent() for each in several]
    currency = ", ".join(dict.fromkeys(each.currency for each in some if each.cost is not None and each.currency))
    read, written = ([each.input_tokens for each in some], [each.output_tokens for each in some])
    cost = _sum([each.cost for each in some], lambda total: money(total, currency))
    return f"{_sum(read, '{:,}'.format)} tokens in, {_sum(written, '{:,}'.format)} out, cost {cost}"


def _sum(values: Sequence[float | None], show: Callable[[float], str]) -> str:
    known = [each for each in values if each is not None]
    unknown = f"{len(values) - len(known)} unknown" if len(values) > 1 else "unknown"
    return " and ".join([*([show(sum(known))] if known else []), *([unknown] if len(known) < len(values) else [])])


def to_html(groups: Groups) -> str:
    """The outcomes as a page, without a script.

    >>> "<td class='same'>run-1 same: " in to_html({"": [Outcome("run-1", "same")]})
    True
    """
    rows: list[str] = []
    for name, several in groups.items():
        for each in several:
            shown = "<br>".join(map(escape, outcome_lines(each)))
            rows.append(f"<tr><td>{escape(name)}</td><td class='{each.status}'>{shown}</td></tr>")
    summary = "".join(f"<li>{escape(line)}</li>" for line in summary_lines(groups))
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>Stored runs again</title><style>{STYLE}</style>"
        f"<h1>Stored runs again</h1><ul>{summary}</ul><table>{''.join(rows)}</table></html>\n"
    )


def to_junit(groups: Groups) -> str:
    """The outcomes as a suite of JUnit: what differs has failed, and what was not rerun was skipped."""
    suites = ElementTree.Element("testsuites")
    for name, several in groups.items():
        of = Counter(each.status for each in several)
        suite = ElementTree.SubElement(suites, "testsuite", name=name or "rxworker lab", tests=str(len(several)))
        suite.attrib.update(failures=str(of["differs"]), skipped=str(of["not rerun"]))
        for each in several:
            case = ElementTree.SubElement(suite, "testcase", classname=name or "rxworker.lab", name=each.run_id)
            if not each.same:
                kind = "failure" if each.difference else "skipped"
                ElementTree.SubElement(case, kind, message=str(each.difference or each.reason))
            ElementTree.SubElement(case, "system-out").text = "\n".join(outcome_lines(each))
    return ElementTree.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def to_json(groups: Groups) -> str:
    """The outcomes as JSON, by group."""
    return msgspec.json.format(msgspec.json.encode(groups)).decode() + "\n"


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
