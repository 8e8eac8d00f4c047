"""What the suite tests in part, since it takes long.

A step of `.ci/run` sets ``RXWORKER_EVERY_CUT=1`` and tests the whole.
"""

from __future__ import annotations

import os

IS_WHOLE = os.environ.get("RXWORKER_EVERY_CUT") == "1"
SLOW_STORES = ["sqlite", "postgres", "nats"] if IS_WHOLE else ["sqlite"]
"""The stores for tests that start many processes; `tests/log/test_conformance.py` is for all stores."""
