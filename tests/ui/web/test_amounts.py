"""Money and durations have one format: the page shows what the screens in Python show."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

import rxworker.ui.web
from rxworker.boards.drawing import cell
from rxworker.boards.panel import number
from rxworker.views.amounts import duration, money

STATIC = Path(rxworker.ui.web.__file__).parent / "static"
NODE = shutil.which("node")
SCRIPT = """
import { readFileSync } from "node:fs";
const { amount, money, seconds } = await import(process.argv[1]);
const { durations, costs } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify([
  durations.map(seconds), costs.map((n) => money(n, "USD")), durations.map((n) => amount(n, "s")),
  costs.map((n) => amount(n, "EUR")),
]));
"""
DURATIONS = [
    *(-1.0, 0.0, 0.0004, 0.0006, 0.003896, 0.04, 0.0949, 0.0951, 0.6, 1.04, 9.96, 10.0, 10.02),
    *(42.4, 59.4, 59.6, 60.0, 303.2, 3_599.4, 3_599.6, 3_600.0, 86_399.4, 86_400.0, 558_300.0),
    1e9,
]
COSTS = [0.0, 4.213e-5, 4.2e-9, 0.003896, 0.00591, 0.5, 0.99999, 1.0, 1.5, 17.7119, 999.999, 1234.5]


@pytest.mark.skipif(NODE is None, reason="node is not installed")
def test_the_page_formats_money_and_durations_as_python_does() -> None:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", SCRIPT, (STATIC / "model" / "format.js").as_uri()],
        input=msgspec.json.encode({"durations": DURATIONS, "costs": COSTS}),
        capture_output=True,
        timeout=50,
        check=True,
    )
    times, costs, times_of_panels, costs_of_panels = msgspec.json.decode(done.stdout)
    assert times == [duration(each) for each in DURATIONS]
    assert times_of_panels == [number(each, "s") for each in DURATIONS]
    assert costs == [money(each, "USD") for each in COSTS]
    assert costs_of_panels == [number(each, "EUR") for each in COSTS]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.003896, "4 ms"), (0.0, "0.0 s"), (7.25, "7.2 s"), (558_300.0, "6 d 11 h"), (61.0, "1 min 1 s")],
)
def test_a_duration_has_its_two_largest_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown
    assert number(seconds, "s") == cell("seconds", seconds) == shown.replace(".0 s", " s")


@pytest.mark.parametrize(("cost", "shown"), [(0.00004213, "0.00004213"), (4.9384, "4.94"), (3.0, "3"), (0.25, "0.25")])
def test_a_cost_has_cents_or_four_significant_digits(cost: float, shown: str) -> None:
    assert money(cost) == cell("cost", cost) == shown
    assert number(cost, "USD") == f"{shown} USD"
