"""Runs of other programs: any stream of events is a run, with watchers, a log, boards and links.

`tap` makes a run of a stream. A mapper makes events of what another library reports, with a `RunBuilder`. `tap_each`
makes several runs of one source, and `tee` one beside a program that reads the source itself.
"""

from rxworker.tap.builder import Mapper, RunBuilder, Tapped
from rxworker.tap.each import TapEach, Tee, tap_each, tee
from rxworker.tap.run import tap

__all__ = ["Mapper", "RunBuilder", "TapEach", "Tapped", "Tee", "tap", "tap_each", "tee"]
