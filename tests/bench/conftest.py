"""Programs that lie here are run by `test_bench.py`, each in a process; they are not modules to be imported."""

from __future__ import annotations

collect_ignore = ["bench.py", "cells.py", "harness.py", "rxworker_client.py"]
