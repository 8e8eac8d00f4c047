"""Approve one call, and deny another; each time in another process, from saved bytes."""

import asyncio

from rxworker import Approve, Deny, Finished, Paused, Worker, tool
from rxworker.testing import Reply, ScriptedModel, call, say
from rxworker.worker import load_paused, save_paused

KEY = b"a key of the service"
paid: list[str] = []


@tool(requires_approval=True)
def pay(to: str, euros: int) -> str:
    """Pay somebody."""
    paid.append(to)
    return f"paid {euros} euros to {to}"


@tool
def balance() -> int:
    """How much there is."""
    return 100


def make_worker(*replies: Reply) -> Worker:
    return Worker(ScriptedModel(list(replies)), tools=[pay, balance])


async def begin() -> bytes:
    calls = call("balance") + call("pay", to="Ada", euros=5) + call("pay", to="Eve", euros=95)
    paused = await make_worker(calls).run("Pay Ada and Eve.")
    assert isinstance(paused, Paused)
    return save_paused(paused, key=KEY)


async def decide(data: bytes, answer: str) -> bytes | Finished:
    """One process: it has only the bytes."""
    paused = load_paused(data, key=KEY)
    waiting = next(pending for pending in paused.pending if pending.id == paused.paused_at)
    print("asked about", waiting.input)
    assert isinstance(waiting.input, dict)
    approved = waiting.input["to"] == "Ada"
    decision = Approve() if approved else Deny("Eve is not known here.")
    worker = make_worker(say(answer))
    result = await worker.resume(paused, decisions={waiting.id: decision})
    if isinstance(result, Paused):
        return save_paused(result, key=KEY)
    assert isinstance(result, Finished)
    return result


def main() -> None:
    data = asyncio.run(begin())
    second = asyncio.run(decide(data, "not read"))
    assert isinstance(second, bytes)
    assert paid == []
    finished = asyncio.run(decide(second, "Ada has her money, Eve has not."))
    assert isinstance(finished, Finished)
    results = [each for message in finished.conversation.messages for each in message.tool_results]
    print([(each.is_error, each.text) for each in results])
    print(finished.text)
    assert paid == ["Ada"]
    assert [each.is_error for each in results] == [False, False, True]
    assert "Eve is not known" in results[2].text


if __name__ == "__main__":
    main()
