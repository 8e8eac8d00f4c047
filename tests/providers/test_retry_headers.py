"""When to try again, as the headers say it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rxworker.providers.service import explain, retry_after

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "0", "retry-after": "1"}, 1.0),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, None),
        ({"x-ms-retry-after-ms": "1500"}, 1.5),
        ({"ratelimit": '"default";r=0;t=30'}, 30.0),
        ({"ratelimit": '"default"; t=30; r=0'}, 30.0),
        ({"ratelimit": '"default";r=5;t=30'}, None),
        ({"ratelimit": '"default";r=0;t=0'}, None),
        ({"ratelimit": '"default";r=0'}, None),
        ({"ratelimit": '"minute";r=0;t=30, "day";r=90;t=7200'}, 30.0),
        ({"ratelimit": '"minute";r=0;t=30,"day";r=0;t=7200'}, 7200.0),
        ({"ratelimit": "limit=10, remaining=0, reset=7"}, 7.0),
        ({"ratelimit": "limit=10, remaining=4, reset=7"}, None),
        ({"ratelimit": '"default";r=0;t=30', "retry-after": "2"}, 2.0),
        ({"ratelimit": '"default";r=0;t=30', "retry-after": "0"}, 30.0),
        ({"ratelimit": "soon"}, None),
    ],
)
def test_the_wait_is_read_from_whichever_header_has_it(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (429, None, True),
        (408, None, True),
        (409, None, True),
        (500, None, True),
        (529, None, True),
        (400, None, False),
        (401, None, False),
        (400, "true", True),
        (500, "false", False),
        (500, "perhaps", True),
    ],
)
def test_the_header_of_the_server_comes_before_the_status(status: int, said: str | None, expected: bool) -> None:
    headers = {"x-should-retry": said} if said else {}
    assert explain("p", status, headers, b"", model="m", variable="KEY").retryable is expected
