"""The seam of the providers: a conversation becomes a request, the answer's bytes become events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias, TypeGuard, cast
from urllib.parse import unquote_plus

from msgspec import Struct, field
from msgspec.structs import fields, force_setattr

from rxworker.errors import ConfigurationError, ProviderError, nearest
from rxworker.events import ResponseEvent
from rxworker.framing.decoder import Decoder
from rxworker.messages import Content, Conversation, Counts, Json, JsonObject, OutputFormat, ToolMeta
from rxworker.messages.settings import Settings, check_number, check_type
from rxworker.messages.usage import Usage
from rxworker.redact import HIDDEN

# What the names of headers and fields with secrets have in them.
SECRET_WORDS = ("auth", "key", "token", "secret", "cookie", "password", "credential")
SHOWN = frozenset({"api-version", "alt", "version"})
"""Parameters of addresses whose values are shown."""
SHORTEST = 6
"""What is shorter keeps no secret, and hiding it would garble a text."""


def is_secret(header: str) -> bool:
    """Whether a header's value must not be shown, judged by its name.

    >>> is_secret("x-api-key"), is_secret("accept")
    (True, False)
    """
    return any(word in header.lower() for word in SECRET_WORDS)


def hidden(value: object) -> object:
    """The value with asterisks for each text in it that stands under the name of a secret; for what people are shown.

    >>> hidden({"Authorization": "Bearer sk-1", "servers": [{"auth_token": "t", "url": "https://a"}]})
    {'Authorization': '***', 'servers': [{'auth_token': '***', 'url': 'https://a'}]}
    """
    if _is_mapping(value):
        return {
            name: HIDDEN
            if isinstance(name, str) and is_secret(name) and isinstance(held, str | bytes)
            else hidden(held)
            for name, held in value.items()
        }
    if _is_array(value):
        if len(value) == 2 and isinstance(name := value[0], str) and is_secret(name):
            return (name, HIDDEN)  # headers are given as pairs, too
        return [hidden(one) for one in value]
    return value


def secrets_in(value: object) -> Iterator[str]:
    """The texts of a value that stand under the name of a secret, longest first if one contains the other.

    What `hidden` hides.

    A header may have a scheme before its secret, and a cookie a name: both are given with and without.

    >>> list(secrets_in({"Authorization": "Bearer sk-1", "cookie": "theme=dark", "servers": [["x-api-key", "k"]]}))
    ['Bearer sk-1', 'sk-1', 'theme=dark', 'dark', 'k']
    """
    if _is_mapping(value):
        for name, held in value.items():
            yield from _secrets_under(name, held)
    elif _is_array(value):
        if len(value) == 2 and isinstance(value[0], str):
            yield from _secrets_under(value[0], value[1])
        else:
            for one in value:
                yield from secrets_in(one)


def _is_mapping(value: object) -> TypeGuard[Mapping[object, object]]:
    return isinstance(value, Mapping)


def _is_array(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _secrets_under(name: object, value: object) -> Iterator[str]:
    if not (isinstance(name, str) and is_secret(name) and isinstance(value, str | bytes)):
        yield from secrets_in(value)
        return
    text = value if isinstance(value, str) else value.decode("utf-8", "replace")
    yield text
    scheme, _, rest = text.partition(" ")
    if rest and scheme.isalpha():
        yield rest.strip()
    if "cookie" in name.lower():
        yield from (part.partition("=")[2].strip() for part in text.split(";"))


def hidden_url(url: str) -> str:
    """An address without a password, and with asterisks for what may be a secret in its query.

    For what people are shown.

    >>> hidden_url("https://me:sk-1@host/v1?key=sk-2&alt=sse")
    'https://***@host/v1?key=***&alt=sse'
    """
    base, mark, query = url.partition("?")
    scheme, there, rest = base.partition("://")
    authority, slash, path = rest.partition("/")
    _, at, host = authority.rpartition("@")
    if at:
        base = f"{scheme}{there}{HIDDEN}@{host}{slash}{path}"
    pairs = [pair.partition("=") for pair in query.split("&")]
    shown = [f"{k}{eq}{HIDDEN if eq and _is_hidden(k, v) else v}" for k, eq, v in pairs]
    return f"{base}{mark}{'&'.join(shown)}"


def secrets_of_url(url: str) -> Iterator[str]:
    """The values in the query of an address that `hidden_url` hides, as they are written and as they are meant.

    >>> list(secrets_of_url("https://host/v1?code=a%2Fbcdefg&alt=sse"))
    ['a%2Fbcdefg', 'a/bcdefg']
    """
    for pair in url.partition("?")[2].split("&"):
        name, _, value = pair.partition("=")
        if _is_hidden(name, value):
            yield from dict.fromkeys((value, unquote_plus(value)))


def _is_hidden(name: str, value: str) -> bool:
    """Whether a parameter may be a secret, whatever its name is: one of Azure is called ``code``."""
    return is_secret(name) or (len(value) >= SHORTEST and name not in SHOWN)


Authorize: TypeAlias = Callable[["HttpRequest"], "HttpRequest | Awaitable[HttpRequest]"]
"""Adds to a request what needs time or the whole of it, such as a token or a signature."""


class Renamed(Struct, frozen=True):
    """A tool under another name.

    Attributes:
        name: The other name.
        keys: The other names of its arguments, by their names; of those alone that have others.
    """

    name: str
    keys: Mapping[str, str]


class HttpRequest(Struct, frozen=True):
    """An HTTP request of a provider. Its ``repr`` shows neither keys nor body.

    Attributes:
        url: The address.
        headers: Names in lower case. Some hold keys.
        body: JSON.
        accept: The content types that are a stream; another one is an answer that went wrong.
        method: The HTTP method.
        is_background: Whether the response goes on at the service without its connection; the provider is then a
            `BackgroundProvider`.
        authorize: Adds what needs time or the whole request, such as a token or a signature; called each time that the
            request is sent. What is not a coroutine function is called in a thread.
        renamed: The own names of tools that the service knows under others, by these: see `fit_tools`.
        left_out: The parts of the conversation that it is sent without, each with the reason: see `media`.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes
    accept: tuple[str, ...] = ("text/event-stream",)
    method: str = "POST"
    is_background: bool = False
    authorize: Authorize | None = None
    renamed: Mapping[str, Renamed] = {}
    left_out: tuple[tuple[Content, str], ...] = ()

    def __repr__(self) -> str:
        url, headers = hidden_url(self.url), hidden(self.headers)
        return f"HttpRequest({self.method} {url} {headers} {len(self.body)} bytes)"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """The same for rich."""
        shown = [("url", hidden_url(self.url)), ("headers", hidden(self.headers))]
        return [("method", self.method), *shown, ("bytes", len(self.body))]


class ToolChoice(Struct, frozen=True):
    """Whether the model must call a tool: ``auto``, ``none``, ``any`` one, or the ``tool`` of that name.

    Attributes:
        mode: One of these words. ``required``, as OpenAI calls it, becomes ``any``.
        name: The name of the tool.

    Raises:
        ConfigurationError: There is no such mode, or a name is missing or has no use.

    >>> ToolChoice("required"), ToolChoice("tool", "look").name
    (ToolChoice(mode='any', name=None), 'look')
    """

    mode: Literal["auto", "none", "any", "tool", "required"] = "auto"
    name: str | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.mode == "required":
            force_setattr(self, "mode", "any")
        if self.mode not in ("auto", "none", "any", "tool") or (self.mode == "tool") is not bool(self.name):
            raise ConfigurationError(
                f"{self!r} is refused: use ToolChoice('auto'), 'none', 'any', or ToolChoice('tool', 'its name')"
            )


AUTO = ToolChoice()


class Options(Settings, frozen=True, omit_defaults=True):
    """Settings of a request. ``None`` leaves it to the provider.

    Its ``repr`` shows what is set. Of ``headers`` and ``extra`` it hides what is a secret by its name, such as an
    authorization.

    Attributes:
        max_tokens: The maximum of tokens to write.
        temperature: Randomness, in the provider's own range.
        stop_sequences: Texts at which the model stops.
        tool_choice: Whether it must call a tool.
        parallel_tool_calls: Whether it may call several at once.
        thinking: The amount of thinking: a budget in tokens, or the provider's word for an effort, for example ``low``.
        output: The required form of the answer.
        extra: Fields of the provider's own, put into the body as they are.
        headers: Headers of the provider's own.
        cache: The parts of a request that may be cached besides those before a `rxworker.messages.CachePoint`: its
            tools, its system text. ``auto`` caches by the rules of the provider, so that the next request of a
            conversation reads all of this one. A provider that caches unasked, or not at all, leaves it out.
        cache_ttl: The lifetime of these parts in the provider's words, for example ``1h``. They always live at least as
            long as a part after them.
        compact_at: From how many tokens of input on the provider shortens the conversation by itself: it writes a
            summary into its answer, and reads what comes before that no more. `Anthropic` and `OpenAIResponses` do at
            their own services; any other refuses it.

    Raises:
        ConfigurationError: A value has another type, or there is no setting of this name.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    stop_sequences: tuple[str, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    thinking: int | str | None = None
    output: OutputFormat | None = None
    extra: JsonObject = field(default_factory=dict[str, Json])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    cache: tuple[Literal["tools", "system"], ...] | Literal["auto"] = ()
    cache_ttl: str | None = None
    compact_at: int | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_number("Options(max_tokens)", self.max_tokens, least=1, whole=True, optional=True)
        check_number("Options(compact_at)", self.compact_at, least=1, whole=True, optional=True)
        check_number("Options(temperature)", self.temperature, optional=True)
        check_type("Options(thinking)", self.thinking, (int, str), "thinking=1024", optional=True)
        _check_texts("Options(stop_sequences)", self.stop_sequences, "stop_sequences=('END',)")
        check_type("Options(cache_ttl)", self.cache_ttl, str, "cache_ttl='1h'", optional=True)
        _check_cache(self.cache)
        if self.tool_choice is not None:
            check_type("Options(tool_choice)", self.tool_choice, ToolChoice, "tool_choice=ToolChoice('any')")
        check_type(
            "Options(parallel_tool_calls)", self.parallel_tool_calls, bool, "parallel_tool_calls=False", optional=True
        )
        check_type("Options(extra)", self.extra, Mapping, "extra={'top_p': 0.9}")
        check_type("Options(headers)", self.headers, Mapping, "headers={'X-Tenant': 'acme'}")

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name, value in self.__rich_repr__())
        return f"Options({', '.join(shown)})"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """The settings that are set, without secrets; for rich, too."""
        shown: list[tuple[str, object]] = []
        for known in fields(self):
            value: object = getattr(self, known.name)
            if value != known.default and value != {}:
                is_open = known.name not in ("headers", "extra")
                shown.append((known.name, value if is_open else hidden(value)))
        return shown


PARTS = ("tools", "system")


def cached_parts(options: Options) -> tuple[str, ...]:
    """The parts before the messages that ``options.cache`` names.

    >>> cached_parts(Options(cache="auto")), cached_parts(Options(cache=("system",)))
    (('tools', 'system'), ('system',))
    """
    return PARTS if options.cache == "auto" else options.cache


def _check_cache(value: object) -> None:
    if value == "auto":
        return
    if isinstance(value, str):
        raise ConfigurationError(f"Options(cache) is {value!r}: write cache='auto', or cache=('tools', 'system')")
    for part in _check_texts("Options(cache)", value, "cache='auto'"):
        if part not in PARTS:
            raise ConfigurationError(
                f"Options(cache): there is no part {part!r}, only {', '.join(PARTS)}{nearest(part, PARTS)}"
            )


def _check_texts(name: str, value: object, example: str) -> list[str]:
    """Check a list of texts. A single text in its place is a common mistake."""
    check_type(name, value, (tuple, list), example)
    texts = value if _is_array(value) else ()
    for text in texts:
        check_type(name, text, str, example)
    return [text for text in texts if isinstance(text, str)]


class Request(Struct, frozen=True):
    """The input of a model.

    Attributes:
        conversation: The conversation so far.
        tools: The tools that the model may call.
        options: Settings.
        cursor: The provider's name of a response that another process has begun, as ``response_id`` of its
            `rxworker.events.Status` has it: a model for which `is_background` holds then emits that response from its
            start on, and sends no request for a new one.
        edits: The hooks that have changed this request, in their order: the name of each, and the request as it
            received it.
    """

    conversation: Conversation
    tools: tuple[ToolMeta, ...] = ()
    options: Options = Options()
    cursor: str = ""
    edits: tuple[tuple[str, Request], ...] = ()


def is_background(model: object, options: Options) -> bool:
    """Whether the responses of a model or a provider go on at the service without their connection.

    If so, a `Request` with a ``cursor`` continues one.

    Args:
        model: The model or provider. It has a method of this name; of one without it no response goes on.
        options: The settings of the requests.

    >>> is_background(object(), Options())
    False
    """
    check: Callable[[Options], bool] | None = getattr(model, "is_background", None)
    return check is not None and check(options)


ResponseDecoder: TypeAlias = Decoder[bytes, ResponseEvent]
"""A decoder from the bytes of a response to its events."""


class ResumableDecoder(ResponseDecoder, Protocol):
    """The decoder of a response that goes on at the service without its connection."""

    def resume(self, sent: HttpRequest) -> HttpRequest | None:
        """The request for the rest of a response, given the one that began the response.

        The decoder then takes its bytes.

        ``None``: the response has ended, or has not begun.
        """
        ...

    def cancel(self, sent: HttpRequest) -> HttpRequest | None:
        """The request that ends the response at the service; ``None``: there is nothing to end."""
        ...


def resumable(decoder: ResponseDecoder) -> ResumableDecoder:
    """The decoder of a response in the background, which `BackgroundProvider` has made, under its type."""
    return cast("ResumableDecoder", decoder)


class Provider(Protocol):
    """One protocol of one service. Pure: it opens no connection."""

    @property
    def name(self) -> str:
        """Its name, as messages carry it, for example ``anthropic``."""
        ...

    @property
    def model(self) -> str:
        """The name of the model."""
        ...

    def request(self, conversation: Conversation, tools: Sequence[ToolMeta], options: Options) -> HttpRequest:
        """The request for the next message of the conversation.

        Raises:
            ConfigurationError: No key was found.
        """
        ...

    def decoder(self) -> ResponseDecoder:
        """A fresh machine from the answer's bytes to events."""
        ...

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error of a response that is not a stream, and its remedy."""
        ...

    def counts(self, usage: Usage) -> Counts:
        """The usage as the provider itself counts it."""
        ...


class BackgroundProvider(Provider, Protocol):
    """A provider whose responses may go on without their connection."""

    def is_background(self, options: Options) -> bool:
        """Whether a response with these settings does."""
        ...

    def background_decoder(self, cursor: str = "") -> ResumableDecoder:
        """A fresh machine from the bytes of such a response to events.

        Args:
            cursor: The provider's name of a response that has begun: ``resume`` then gives the request for all of its
                events.
        """
        ...
