"""The example for NiceGUI, driven by its own simulated user."""

# pyright: reportUnknownVariableType=false
from __future__ import annotations

from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "examples" / "nicegui_view.py"


@pytest.mark.slow
async def test_each_tab_shows_the_whole_run() -> None:
    from nicegui.testing.user_simulation import user_simulation  # half a second where it is imported

    async with user_simulation(main_file=PROGRAM) as user:
        await user.open("/")
        await user.should_see("The moon", retries=100)
        await user.should_see("The sun does the work.", retries=100)
        await user.should_see("15 tokens", retries=100)
        await user.open("/")  # late
        await user.should_see("The moon is a stone that shines. The sun", retries=100)
