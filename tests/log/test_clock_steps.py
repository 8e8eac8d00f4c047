"""The clock of the machine is set while runs go on.

Leases last as long as before, in every store with several processes.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from rxworker.errors import LeaseHeldError
from rxworker.log import RunInfo, open_log
from rxworker.log.recover import RunSource
from tests.log.conftest import NewAddress
from tests.log.test_conformance import RUN, begun

STORES = ["sqlite", "postgres", "nats"]
STEPS = [3600.0, -3600.0]


def set_clock(monkeypatch: pytest.MonkeyPatch, step: float) -> None:
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + step)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("store", STORES)
async def test_a_step_of_the_clock_takes_no_run_from_its_process(
    store: str, step: float, new_address: NewAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_address(store)
    async with open_log(address, lease=60.0) as owner, open_log(address, lease=60.0) as other:
        claim = await begun(owner)
        async with RunSource(other) as source:
            assert await source.take(wait=False) is None
            set_clock(monkeypatch, step)
            assert await asyncio.to_thread(owner.renew, [claim]) == []
            assert await source.take(wait=False) is None
            info = await other.existing(RUN)
            assert not info.is_cut_off()
            assert 0 < info.lease_until - time.time() < 61
            with pytest.raises(LeaseHeldError) as held:
                await other.claim(RUN)
            assert 0 < held.value.until - time.time() < 61
            with pytest.raises(LeaseHeldError):
                await other.delete(RUN)
            assert await other.prune(max_runs=0) == []


@pytest.mark.product(2)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("store", STORES)
async def test_a_run_whose_process_has_ended_is_taken_though_the_clock_was_set(
    store: str, step: float, new_address: NewAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = new_address(store)
    async with open_log(address, lease=0.5) as ended, open_log(address, lease=0.5) as other:
        await begun(ended)
        async with RunSource(other) as source:
            assert await source.take(wait=False) is None  # its lease lasts
            set_clock(monkeypatch, step)
            async with asyncio.timeout(20):
                taken: RunInfo | None = await source.take()
            assert taken is not None
            assert (await other.claim(RUN)).epoch == 2
