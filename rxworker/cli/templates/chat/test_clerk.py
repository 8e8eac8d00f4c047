"""The clerk with a scripted model: no key, no network."""

import clerk
import pytest
from rxworker import Deny, Finished, Paused, Worker
from rxworker.testing import ScriptedModel, call, say


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Worker:
    model = ScriptedModel([call("cancel_order", number=8), say("It stays.")])
    monkeypatch.setattr(clerk, "make_model", lambda: model)
    return clerk.make_worker()


def test_an_order_is_not_cancelled_without_an_approval(worker: Worker) -> None:
    paused = worker.run_sync("Cancel order 8.")
    assert isinstance(paused, Paused)
    assert paused.reason == "Cancel order 8?"
    decisions = {pending.id: Deny("keep it") for pending in paused.pending}
    finished = worker.in_script(worker.resume, paused, decisions=decisions)
    assert isinstance(finished, Finished)
    assert finished.text == "It stays."
    assert clerk.ORDERS[8] == "waiting"
