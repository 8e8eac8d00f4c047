"""Mistakes of the first hour: the error names what was meant."""

from __future__ import annotations

import ssl
import subprocess
import sys
import textwrap
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import reactivex
from aiohttp import ClientConnectorCertificateError

import rxworker
from rxworker import Worker
from rxworker.errors import ConfigurationError, LimitExceededError
from rxworker.hooks import Hooks
from rxworker.log import MemoryLog, SQLiteLog
from rxworker.operators import merge_runs, only, split_meta
from rxworker.panels import count
from rxworker.providers import PROVIDERS, HttpRequest
from rxworker.testing import ScriptedModel, call
from rxworker.tools import Toolbox, run_tools
from rxworker.transport import Client
from rxworker.transport.http import _translated
from rxworker.turn.permit import permit
from rxworker.ui.web import make_app
from rxworker.worker import Budget, QueuedWorker

MODEL = ScriptedModel([])
MISSPELT: dict[str, tuple[Callable[[], object], str]] = {
    "Worker": (lambda: Worker(MODEL, sytem="x"), "system"),  # type: ignore[call-arg]  # pyright: ignore
    "QueuedWorker": (lambda: QueuedWorker("desk", tenat="x"), "tenant"),  # pyright: ignore
    "Client": (lambda: Client(MODEL, retrys=3), "retry"),  # pyright: ignore
    "Budget": (lambda: Budget(max_cots=3), "max_cost"),  # pyright: ignore
    "MemoryLog": (lambda: MemoryLog(onwer="x"), "owner"),  # pyright: ignore
    "SQLiteLog": (lambda: SQLiteLog("x.db", leas=3), "lease"),  # pyright: ignore
    "ServerState": (lambda: make_app(Worker(MODEL), setings=3), "settings"),  # pyright: ignore
}


@pytest.mark.parametrize("name", MISSPELT)
def test_a_misspelt_argument_is_reported_with_the_name_of_the_class_and_the_nearest(name: str) -> None:
    make, meant = MISSPELT[name]
    with pytest.raises(ConfigurationError, match=rf"^{name}\(.*did you mean '{meant}'") as raised:
        make()
    assert raised.value.page


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_misspelt_argument_of_a_provider_is_reported_by_the_name_of_the_provider(provider: str) -> None:
    make: Any = PROVIDERS[provider]
    name = getattr(make, "__name__", "")
    with pytest.raises(ConfigurationError, match=rf"^{name}\(.*did you mean 'base_url'"):
        make("some-model", bas_url="http://localhost")


def test_an_argument_in_the_wrong_place_is_reported_with_the_arguments_that_there_are() -> None:
    make: Any = Worker
    with pytest.raises(ConfigurationError, match=r"too many .* it takes model, and by name: tools"):
        make(MODEL, [])
    with pytest.raises(ConfigurationError, match=r"missing a required argument: 'model'"):
        make()


def test_an_error_in_a_constructor_stays_as_it_is() -> None:
    class Broken(Worker):
        def new_session(self, *_: object, **__: object) -> Any:
            raise TypeError("of its own")

    with pytest.raises(TypeError, match=r"^of its own$"):
        _ = Broken(MODEL).session


async def test_a_run_that_is_read_as_its_result_names_await() -> None:
    run: Any = Worker(ScriptedModel(["Hello."])).run("Hi")
    with pytest.raises(AttributeError, match=r"\(await run\)\.text, or worker\.run_sync"):
        _ = run.text
    with pytest.raises(TypeError, match=r"use async for record in run, or worker\.stream_sync"):
        list(run)
    for observable in (run.events, run.records):
        with pytest.raises(TypeError, match="an observable is not iterable"):
            list(observable)
    with pytest.raises(AttributeError, match="did you mean 'events'"):
        _ = run.evnts
    assert not hasattr(run, "__enter__")
    with pytest.raises(TypeError, match=r"merge_runs\(\[run\]\)"):
        merge_runs(run)
    await run


GUESSES = {
    "ScriptedModel": "rxworker.testing import ScriptedModel",
    "Anthropic": "rxworker.providers import Anthropic",
    "OpenAI": "rxworker.providers import OpenAIChat",
    "text_deltas": "rxworker.operators import text_deltas",
    "SqliteLog": "rxworker.log import SQLiteLog",
    "PostgresLog": "rxworker.log.postgres import PostgresLog",
    "panel": "rxworker.boards import panel",
    "serve": "rxworker.ui.web import serve",
    "Message": "rxworker.messages import Message",
    "ToolError": "rxworker.errors import ToolError",
    "Client": "rxworker.transport import Client",
    "Budget": "rxworker.worker import Budget",
    "wokrer": "rxworker import Worker",
}


@pytest.mark.parametrize("name", GUESSES)
def test_a_name_of_another_package_is_reported_with_its_import(name: str) -> None:
    with pytest.raises(ImportError, match=f"did you mean: from {GUESSES[name]}"):
        exec(f"from rxworker import {name}")
    with pytest.raises(AttributeError, match=f"did you mean: from {GUESSES[name]}"):
        getattr(rxworker, name)


def test_a_name_that_is_like_none_stays_an_attribute_error() -> None:
    assert not hasattr(rxworker, "qwxzk")
    assert not hasattr(rxworker, "__wrapped__")


def test_a_program_imports_what_it_uses_and_no_more() -> None:
    code = """
    import sys
    from rxworker import state
    assert "rxworker.worker" not in sys.modules
    from rxworker import Worker
    from rxworker import boards, log, testing
    Worker(testing.ScriptedModel(["Hi."]), log=log.MemoryLog()).run_sync("Hi")
    from rxworker.cli import main, protocols, runs, work
    assert not {"aiohttp", "mcp", "nats", "psycopg", "textual"} & {*sys.modules}
    from rxworker.transport import Client, HttpTransport
    from rxworker.providers import Anthropic
    assert isinstance(Client(Anthropic("a-model", api_key="k")).transport, HttpTransport)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.parametrize("limit", ["max_turns", "budget.max_cost"])
def test_the_remedy_of_a_limit_can_be_written(limit: str) -> None:
    owner, name = ("Budget", "max_cost") if "." in limit else ("Limits", limit)
    message = str(LimitExceededError(limit, 3))
    assert f"Worker({owner.lower()}={owner}({name}=...))" in message


def test_a_certificate_that_is_not_trusted_names_the_setting_for_an_authority() -> None:
    error = ClientConnectorCertificateError(
        SimpleNamespace(host="desk.example", port=443, ssl=True, is_ssl=True),  # pyright: ignore[reportArgumentType]
        ssl.SSLCertVerificationError("self-signed certificate"),
    )
    request = HttpRequest("https://desk.example", {}, b"")
    assert "SSL_CERT_FILE" in str(_translated(error, request, 5.0))


@pytest.mark.parametrize(
    "make",
    [
        lambda: split_meta(None, only(int)),  # pyright: ignore
        lambda: split_meta(only(int), None),  # pyright: ignore
        lambda: split_meta(only(int), only),  # pyright: ignore
        lambda: count("ToolStart"),  # pyright: ignore
        lambda: run_tools(None),  # pyright: ignore
        lambda: run_tools([print]),  # pyright: ignore
        lambda: permit(None, Toolbox([])),  # pyright: ignore
        lambda: permit(Hooks(), None),  # pyright: ignore
        lambda: permit(Hooks(), reactivex.never()),  # pyright: ignore
    ],
)
def test_a_wrong_argument_of_an_operator_is_refused_when_it_is_given(make: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert raised.value.page


@pytest.mark.parametrize("wrong", [[call("look")], None, 7, ("Hello.",), call])
async def test_a_scripted_reply_of_another_type_is_refused_with_what_to_write(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"a text, or a Reply"):
        ScriptedModel([wrong])
    with pytest.raises(ConfigurationError, match=r"a text, or a Reply"):
        await Worker(ScriptedModel(lambda request: wrong)).run("Hi")
