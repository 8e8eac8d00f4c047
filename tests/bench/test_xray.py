"""What x-ray costs a dashboard, as a share of what its operators cost themselves; the figures are for `xray.py`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.bench
def test_x_ray_costs_a_part_of_what_the_operators_cost_themselves() -> None:
    command = [sys.executable, str(Path(__file__).with_name("xray.py")), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=55)
    assert done.returncode == 0, done.stderr
    # Those of time, usually 0.25, 0.12 and 0.19, are printed: other programs use the machine, too.
    shares = [float(share) for share in re.findall(r"calls ([-+]\d\.\d{4})", done.stdout)]
    assert len(shares) == 3
    assert max(shares) < 0.2, done.stdout
