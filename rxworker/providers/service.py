"""Common parts of the providers.

A model of a service, its address, its key, and the HTTP responses that are not streams: their errors, and the retry
that their headers require.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from operator import is_
from typing import Any, ClassVar, TypeAlias, TypedDict, Unpack

import msgspec
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, LocalProtocolError, ProviderError
from rxworker.events import ResponseEvent
from rxworker.framing import Decoder, SseDecoder
from rxworker.messages import Content, Conversation, Counts, JsonObject, Message, OpaqueBlock, ToolMeta
from rxworker.messages.settings import awaited, check_type, checks_arguments
from rxworker.messages.usage import Usage
from rxworker.providers.base import Authorize, HttpRequest, Options, Request, ResponseDecoder, hidden_url, is_secret
from rxworker.providers.batch_decoder import BatchDecoder, Framing
from rxworker.providers.content import with_schema
from rxworker.providers.encode_cache import Body, Remembered
from rxworker.providers.endpoint import (
    Host,
    base_address,
    checked_headers,
    current_secrets,
    endpoint,
    host_of,
    masked,
    openai_host,
    read_key,
    read_model,
)
from rxworker.providers.error_table import FINAL_KINDS, RETRYABLE_KINDS
from rxworker.providers.failure import Failure, failure_of, kind_of, until_refilled, until_reset
from rxworker.providers.fit import FittedTools, fit_tools, fitted
from rxworker.providers.models import UNKNOWN, ModelInfo, model_info
from rxworker.providers.origin import Origin, foreign, service_at
from rxworker.providers.takes import ANYTHING, NOTES, TAKES, Media, in_place

ApiKey: TypeAlias = str | Callable[[], str | Awaitable[str]]
"""A key, or a function or a coroutine function that returns one."""


class Draft(Request, frozen=True, kw_only=True):
    """A request, and what is worked out once for it.

    Attributes:
        url: Its address.
        info: What the model takes and costs there.
    """

    url: str
    info: ModelInfo


class Place(TypedDict, total=False):
    """The arguments of each provider but the key. `Service` describes them."""

    base_url: str | None
    address: str | None
    headers: Mapping[str, str] | None
    info: ModelInfo | None


class Settings(Place, total=False):
    """The arguments of each provider whose service takes a key."""

    api_key: ApiKey | None


_SHARED = {f"Unpack[{kind.__name__}]": kind for kind in (Place, Settings)}


@checks_arguments
class Service(ABC):
    """The base of a provider: its requests, its errors, its decoder and its counts.

    A subclass has what its service has of its own.

    Args:
        model: The model's name.
        api_key: The key, if it is not that of the environment variable, or a function or a coroutine function that
            returns it. A function is called for each request, in a thread, since tokens expire.
        base_url: The address of the service, if it is not the provider's default.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With one for authentication among them no key is looked for.
        info: What the model takes and costs, if it is not what the table of `rxworker.providers.model_info` has.

    Attributes:
        name: The name that messages carry.
        model: The model's name.
    """

    name: str
    _variable: str  # the environment variable of the key, or the argument that has it
    _shown: tuple[str, ...] = ("base_url", "address")  # the arguments for the place of the model
    _key_headers: tuple[str, ...] = ("authorization",)
    _accept: tuple[str, ...] = ("text/event-stream",)
    _shows_vendor = False  # whether its host shows whose models are there
    _has_background = False  # whether its responses may go on without their connection
    _vendors: tuple[str, ...] = ()  # whose settings its protocol has
    _own_headers: ClassVar[Mapping[str, str]] = {}  # which those that are given replace
    _room: int | None = None  # what is sent where the options have no maximum
    _encode: ClassVar[Callable[[str, Draft], Body]]
    _framing: ClassVar[Callable[..., Framing[Any]]] = partial(SseDecoder, stray=True)
    _frame_decoder: ClassVar[type[Decoder[Any, ResponseEvent]]]
    _numbers: ClassVar[Callable[[JsonObject], Sequence[int | None]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        checks_arguments(cls)
        make, base = (inspect.signature(each.__init__).parameters for each in cls.__mro__[:2])
        every = {name: at for name, at in make.items() if at.kind is not at.VAR_KEYWORD}
        if "settings" in make:  # `inspect` is given all that they hold
            shared = _SHARED[make["settings"].annotation].__annotations__
            every |= {name: base[name] for name in base if name in shared or name not in Settings.__annotations__}
        known: Any = cls.__init__
        known.__signature__ = inspect.Signature([*every.values()])

    def __init__(
        self,
        model: str,
        *,
        api_key: ApiKey | None = None,
        base_url: str | None = None,
        address: str | None = None,
        headers: Mapping[str, str] | None = None,
        info: ModelInfo | None = None,
    ) -> None:
        self.model = read_model(model)
        check_type("info", info, ModelInfo, "info=ModelInfo(output=32_000)", optional=True)
        self._info = info
        if not (api_key is None or isinstance(api_key, str) or callable(api_key)):
            raise ConfigurationError("api_key is neither a text nor a function that returns one")
        self._given = api_key
        if address and base_url:
            raise ConfigurationError(
                "pass address=..., which is used unchanged, or base_url=..., to which the path is added"
            )
        if address:
            endpoint(address, "", "")
        if base_url:
            self._check_base(base_url)
        self._base_url = base_url
        self._address = address
        self._last_key: str | None = None  # what a function returned, to be masked
        # Of the last request: its address and its settings, and what the model takes of these; and its tools.
        self._known: tuple[str, Options, ModelInfo, Options] | None = None
        self._fitted: tuple[tuple[ToolMeta, ...], FittedTools] = (), FittedTools()
        named = {"content-type": "application/json", "accept": self._accept[0], **self._own_headers}
        self._headers = named | checked_headers(headers or {})

    def _check_base(self, base_url: str) -> None:
        """Raise `ConfigurationError` for what cannot be a ``base_url``."""
        endpoint(base_url, "", "")

    def __repr__(self) -> str:
        place = {name: hidden_url(getattr(self, f"_{name}") or "") for name in self._shown}
        shown = [f", {name}={value!r}" for name, value in place.items() if value]
        return f"{type(self).__name__}({self.model!r}{''.join(shown)})"

    def request(self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options) -> HttpRequest:
        """The request for the next message.

        Raises:
            ConfigurationError: No key was found, an address, key or header cannot be sent, the model does not take a
                setting, or a tool requires something that the protocol does not have.
            LocalProtocolError: The conversation holds content that the protocol cannot express.
        """
        url = self._address or self._url()
        known = self._known
        if known is None or known[0] != url or known[1] is not options:
            info = self._info_at(url)
            known = self._known = url, options, info, fitted(self.model, info, options, self._room)
        _, _, info, options = known
        if options.output is not None and tools and not self.structures_beside_tools:
            conversation = replace(conversation, system=with_schema(conversation.system, options.output.schema))
            options = replace(options, output=None)
        others = foreign(conversation.messages, Origin(self.name, service_at(url), self.model))
        if others is not None:
            conversation = conversation.with_messages(others)
        given, fit = self._fitted
        if given is not tools and (len(given) != len(tools) or not all(map(is_, given, tools))):  # as `encode_cache`
            fit = fit_tools(tools, TAKES.get(self.name, ANYTHING))
            self._fitted = tuple(tools), fit
        if fit.sent:
            conversation, options = fit.rename(conversation, options)
        draft = Draft(conversation, fit.tools, options, url=url, info=info)
        if (settled := self._settled(draft)) is not options:
            options, draft = settled, replace(draft, options=settled)
        headers = {**self._headers}
        if options.headers:
            headers |= checked_headers(options.headers)
        authorize: Authorize | None = None
        if headers.keys().isdisjoint(self._key_headers):
            given = self._given
            authorize = self._authorize_late(url, given)
            if authorize is None and not callable(given):
                headers |= self._authorization(url, given)
        if options.compact_at is not None:
            self._check_compaction(options)
        notes = list[tuple[Content, str]]()
        before = NOTES.set(notes)
        try:
            body = self._body(draft)
        except LocalProtocolError:
            body = self._body(_without_refused(draft, self._body))
        finally:
            NOTES.reset(before)
        return HttpRequest(
            url,
            headers,
            body,
            self._accept,
            is_background=self.is_background(options),
            authorize=authorize,
            renamed=fit.own,
            left_out=(*notes,),
        )

    @property
    def service(self) -> str:
        """Where the model is, as messages carry it; see `rxworker.messages.Message`."""
        return service_at(self._address or self._url())

    @property
    def compacts(self) -> bool:
        """Whether the service shortens a conversation by itself; see ``compact_at`` of `Options`."""
        return False

    def _check_compaction(self, options: Options) -> None:
        """Raise `ConfigurationError` if the service cannot shorten the conversation after a request."""
        if not self.compacts:
            raise ConfigurationError(
                f"compact_at: {self!r} does not shorten a conversation by itself: leave it out, and use "
                "Worker(compact=Compact(by='model'))"
            )
        if "context_management" in options.extra:
            raise ConfigurationError(
                "compact_at and extra={'context_management': ...} exclude each other: put the compaction into yours"
            )

    def is_background(self, options: Options) -> bool:
        """Whether a response with these settings goes on at the service without its connection."""
        return self._has_background and options.extra.get("background") is True

    @property
    def structures_beside_tools(self) -> bool:
        """Whether an answer can be held to a schema in a request with tools; without it, the model reads the schema."""
        return self.info.structured_with_tools

    @property
    def info(self) -> ModelInfo:
        """What the model takes and costs: what was given, or else the row of the table."""
        return self._info_at((self._address or self._url()) if self._shows_vendor else "")

    def _info_at(self, url: str) -> ModelInfo:
        """The same, at an address."""
        if self._info is not None:
            return self._info
        row = model_info(self.model, host_of(url) if self._shows_vendor else "")
        return row if row.vendor in self._vendors else UNKNOWN

    def _settled(self, request: Draft) -> Options:
        """The settings, as the rest of the request demands them."""
        return request.options

    @abstractmethod
    def _url(self) -> str:
        """The address of the requests."""

    @abstractmethod
    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        """The header with the key that was given, or with that of the environment, if there is one.

        Read for each request.
        """

    def _authorize_late(self, url: str, given: ApiKey | None) -> Authorize | None:
        """What adds the key when the request is sent; ``None`` if the key is known now."""
        if given is None or isinstance(given, str):
            return None

        def keyed(request: HttpRequest, key: object) -> HttpRequest | Awaitable[HttpRequest]:
            if inspect.isawaitable(key):
                return later(request, key)
            if not isinstance(key, str) or not key:
                raise ConfigurationError(
                    f"the function for the key returned {type(key).__name__}, not a string: give a function that "
                    "returns the key"
                )
            self._last_key = key
            return replace(request, headers=self._authorization(url, key) | {**request.headers})

        async def later(request: HttpRequest, key: Awaitable[object]) -> HttpRequest:
            return await awaited(keyed(request, await key))

        return lambda request: keyed(request, given())

    def _body(self, request: Draft) -> bytes:
        """The JSON of a request."""
        return msgspec.json.encode(type(self)._encode(self.model, request))

    def decoder(self) -> ResponseDecoder:
        """A fresh machine from the answer's bytes to events."""
        return BatchDecoder(type(self)._framing(), type(self)._frame_decoder())

    def counts(self, usage: Usage) -> Counts:
        """The usage as the provider itself counts it."""
        return Counts(*type(self)._numbers(usage.raw or {})[:4])

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error of a response that is not a stream, and its remedy."""
        return explain(
            self.name, status, headers, body, model=self.model, variable=self._variables[0], secrets=self._secrets()
        )

    @property
    def _variables(self) -> tuple[str, ...]:
        """The environment variables that may hold the key, the first one first."""
        return (self._variable,)

    def _secrets(self) -> tuple[str | None, ...]:
        """The secrets that a response may repeat, and that an error must not show."""
        secret = [value for name, value in self._headers.items() if is_secret(name)]
        own = current_secrets(self._given if isinstance(self._given, str) else self._last_key, *self._variables)
        return (*own, *(value.removeprefix("Bearer ") for value in secret))


def _without_refused(draft: Draft, encode: Callable[[Draft], object]) -> Draft:
    """The request with a text for each part of an earlier message of the user's that cannot be encoded.

    Another service has answered to it. What is refused of the input of now is raised.
    """

    def taken(block: Content) -> Content:
        if not isinstance(block, Media | OpaqueBlock):
            return block
        try:
            alone = Conversation((Message("user", (block,)),))
            encode(replace(draft, conversation=alone, tools=(), options=Options()))
        except LocalProtocolError as error:
            return in_place(block, error, "message")
        return block

    messages = draft.conversation.messages
    last = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=0)
    earlier = [m if m.role == "assistant" else replace(m, content=(*map(taken, m.content),)) for m in messages[:last]]
    return replace(draft, conversation=draft.conversation.with_messages([*earlier, *messages[last:]]))


OPENAI = "https://api.openai.com/v1"


class HostedService(Service):
    """The base of a protocol that many hosts speak: where it is at each, and with which key.

    A subclass has the row of a host that is not in the table; its `Host.variable` is also read at the others.
    """

    _host_at: ClassVar[Callable[[str], Host | None]]
    _own: ClassVar[Host]  # the row of a host that is not in the table
    _shows_vendor = True
    _compacting_hosts: tuple[str, ...] = ()  # the ends of those that shorten conversations

    @property
    def compacts(self) -> bool:
        """Whether the service shortens a conversation by itself.

        A host that is not known is taken for a gateway to it if it has a model of the vendor's.
        """
        hosts, url = self._compacting_hosts, self._address or self._url()
        is_gateway = type(self)._host_at(url) is None and self.info.vendor == self._vendors[0]
        return bool(hosts) and (host_of(url).endswith(hosts) or is_gateway)

    @property
    def _variables(self) -> tuple[str, ...]:
        row = type(self)._host_at(self._address or self._url()) or self._own
        return tuple(dict.fromkeys((row.variable, self._variable)))

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        known = type(self)._host_at(url)
        row = known or self._own
        key = read_key(given, row.variable, self._variable, needed=known is not None)
        return row.authorization(key) if key else {}


class OpenAIService(HostedService):
    """The base of OpenAI's two protocols, which share their address, their key and their arguments.

    A subclass has the name, the path and the form of a tool.
    """

    _variable = "OPENAI_API_KEY"
    _key_headers = ("authorization", "api-key")
    _vendors = ("openai", "deepseek", "moonshot", "zai", "minimax", "xai", "qwen")
    _host_at = staticmethod(openai_host)
    _own = Host(_variable)
    _path: str
    _encode_tool: ClassVar[Callable[[ToolMeta], JsonObject]]

    def __init__(self, model: str, **settings: Unpack[Settings]) -> None:
        super().__init__(model, **settings)
        self._remembered = Remembered[Any](type(self)._encode_tool)

    @property
    def _cached(self) -> ModelInfo:
        """How the model caches, by the row of its vendor: these protocols are spoken for models of many vendors."""
        return model_info(self.model) if self._info is None else self._info

    def _url(self) -> str:
        base = base_address(self._base_url, "OPENAI_BASE_URL", OPENAI)
        return endpoint(base, self._path, (openai_host(base) or self._own).root or "/v1")


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds to wait before the next try, if the response contains it.

    A value of zero has no meaning: one server was seen to send ``retry-after-ms: 0`` beside ``retry-after: 1``.

    Args:
        headers: Of the answer, names in lower case.
        now: The time that a date is compared with.

    >>> retry_after({"retry-after-ms": "0", "retry-after": "1"})
    1.0
    """
    milliseconds = _number(headers.get("retry-after-ms")) or _number(headers.get("x-ms-retry-after-ms"))
    if milliseconds:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds:
        return seconds
    if value is None or seconds == 0:
        return until_refilled(headers.get("ratelimit", ""))
    try:
        date = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=UTC)
    wait = (date - (now or datetime.now(UTC))).total_seconds()
    return wait if wait > 0 else None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


REQUEST_IDS = ("request-id", "x-request-id", "x-amzn-requestid", "apim-request-id", "cf-ray")


def explain(
    name: str,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    model: str,
    variable: str,
    secrets: tuple[str | None, ...] = (),
) -> ProviderError:
    """The error that an answer stands for.

    Args:
        name: The provider's name.
        status: The HTTP status; 200 where the body was not a stream.
        headers: Of the answer.
        body: Of the answer: JSON, HTML, text or nothing.
        model: The model of the request.
        variable: The environment variable of the key.
        secrets: Texts to be redacted.
    """
    headers = {key.lower(): value for key, value in headers.items()}
    failure = failure_of(status, body)
    request_id = failure.request_id or next((headers[name] for name in REQUEST_IDS if headers.get(name)), None)
    wait = retry_after(headers) or failure.retry_after
    if wait is None and status == 429:
        wait = until_reset(headers)
    retryable = _retryable(status, headers, failure)
    sentence = f"{name} answered with HTTP {status}"
    if status < 400:
        sentence += " and no stream"
    if failure.code:
        sentence += f" ({failure.code})"
    sentence += f": {failure.message}"
    if 300 <= status < 400:
        target = headers.get("location", "another address").partition("?")[0]
        sentence += f" - it points to {target}; a key is not sent there: if that is right, make it the base_url"
    if request_id:
        sentence += f" [request {request_id}]"
    sentence += _advice(failure.kind, model, variable, wait)
    return ProviderError(
        masked(sentence, secrets),
        kind=failure.kind,
        status=status,
        code=failure.code,
        retryable=retryable,
        retry_after=wait,
        request_id=request_id,
    )


def _retryable(status: int, headers: Mapping[str, str], failure: Failure) -> bool:
    """Whether the same request may succeed: by the response, else by the kind of the failure and the status."""
    word = headers.get("x-should-retry", "").strip().lower()
    if word in ("true", "false") or failure.kind in FINAL_KINDS:
        return word == "true"
    # Also the status of an error of another kind: what is too large for the limits of a minute (413) never passes.
    return kind_of(status) in RETRYABLE_KINDS or (failure.kind in RETRYABLE_KINDS and status != 413)


def _advice(kind: str, model: str, variable: str, wait: float | None) -> str:
    pause = f"wait {wait:g} s" if wait else "wait a little"
    advice = {
        "authentication": f"check the key: {variable} or api_key=...",
        "permission": f"the key may not use {model!r}; check its rights",
        "not_found": f"check the model's name {model!r} and the base_url",
        "context_length": "the conversation is too long for the model; shorten it",
        "rate_limit": f"{pause} and try again, or send fewer requests",
        "quota": "check the account's plan and billing",
        **dict.fromkeys(("overloaded", "server", "timeout"), f"{pause} and try again"),
        "invalid_request": "check the request's options",
    }.get(kind)
    return f" - {advice}" if advice else ""
