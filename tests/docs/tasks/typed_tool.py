"""A tool with typed parameters: the model reads why a call failed, and corrects it."""

from typing import Annotated, Literal

from msgspec import Meta

from rxworker import Worker, tool
from rxworker.testing import ScriptedModel, call, say

STOCK = {"tea": 40, "rice": 0}


@tool
def reserve(item: Literal["tea", "rice"], amount: Annotated[int, Meta(ge=1, le=50)]) -> int:
    """Reserve goods, and return how many are left.

    Args:
        item: What to reserve.
        amount: How much of it.
    """
    if STOCK[item] < amount:
        raise ValueError(f"only {STOCK[item]} of {item} are left")
    return STOCK[item] - amount


def main() -> None:
    model = ScriptedModel(
        [
            call("reserve", item="tea", amount="many"),  # not of the type
            call("reserve", item="tea", amount=45),  # the tool raises
            call("reserve", item="tea", amount=10),
            say("Ten are reserved, 30 are left."),
        ]
    )
    result = Worker(model, tools=[reserve]).run_sync("Reserve much tea.")
    answers = [answer for message in result.conversation.messages for answer in message.tool_results]
    for answer in answers:
        print(answer.is_error, answer.text)
    assert [answer.is_error for answer in answers] == [True, True, False]
    assert "amount" in answers[0].text
    assert "only 40 of tea are left" in answers[1].text
    assert answers[2].text == "30"
    assert result.text == "Ten are reserved, 30 are left."


if __name__ == "__main__":
    main()
