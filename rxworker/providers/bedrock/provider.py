"""Amazon Bedrock as a provider: any of its models by the Converse protocol, and Claude by Anthropic's own Messages.

Requests are signed with AWS credentials (SigV4) by botocore, which finds profiles, roles, containers and machines as
every program of AWS does. It is the extra ``bedrock``, and is imported when a request is signed first. It reads files
and may call AWS for the credentials of a role, so it belongs into a thread.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from rxworker.errors import ConfigurationError, ProviderError
from rxworker.framing.event_stream import EventStreamDecoder, EventStreamMessage
from rxworker.framing.sse import SseFrame
from rxworker.messages import Json
from rxworker.messages.lenient_json import as_array, as_object, read_repaired
from rxworker.providers.anthropic.decode import AnthropicDecoder
from rxworker.providers.anthropic.encode import DEFAULT_MAX_TOKENS, RequestEncoder
from rxworker.providers.anthropic.options import BETAS, BINDING_BETA, with_binding
from rxworker.providers.anthropic.wire import numbers as numbers_of_messages
from rxworker.providers.base import Authorize, HttpRequest, Options
from rxworker.providers.batch_decoder import Events
from rxworker.providers.bedrock.decode import BedrockDecoder, numbers, stream_failure
from rxworker.providers.bedrock.encode import NAME, encode
from rxworker.providers.endpoint import checked_headers, current_secrets, endpoint, read_key
from rxworker.providers.service import ApiKey, Draft, Service, Settings

MISSING = (
    "no key for Bedrock, and botocore, which finds AWS credentials, is not installed: set AWS_BEARER_TOKEN_BEDROCK, or "
    "pip install '/path/to/the/checkout[bedrock]'"
)


class Signer:
    """Signs requests with the credentials of a profile.

    Args:
        profile: Its name; ``None``: as AWS's tools choose it.
    """

    def __init__(self, profile: str | None) -> None:
        self._profile = profile
        self._session: Any = None  # botocore has no types

    def region(self) -> str | None:
        """The region of the profile, if it has one."""
        try:
            return self._open().get_config_variable("region")
        except ConfigurationError:
            return None

    def sign(self, request: HttpRequest, region: str) -> HttpRequest:
        """The request with its signature.

        Raises:
            ConfigurationError: botocore is not installed, or there are no credentials, or AWS refuses them.
        """
        session = self._open()
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        new_auth: Any = SigV4Auth
        try:
            credentials = session.get_credentials()
            if credentials is None:
                raise ConfigurationError(
                    "no AWS credentials: set AWS_BEARER_TOKEN_BEDROCK, or configure them as for the AWS command line "
                    "(aws configure)"
                )
            signed: Any = AWSRequest("POST", request.url, dict(request.headers), request.body)
            new_auth(credentials.get_frozen_credentials(), "bedrock", region).add_auth(signed)
        except (BotoCoreError, ClientError) as error:  # of a file, and of the service for roles
            raise ConfigurationError(f"the AWS credentials cannot be used: {error}") from error
        return replace(request, headers={k.lower(): v for k, v in signed.headers.items()})

    def _open(self) -> Any:
        if self._session is None:
            try:
                from botocore.exceptions import ProfileNotFound
                from botocore.session import Session
            except ImportError as error:
                raise ConfigurationError(MISSING) from error
            try:
                self._session = Session(profile=self._profile)
                self._session.get_scoped_config()
            except ProfileNotFound as error:
                self._session = None
                raise ConfigurationError(f"{error}: give one of ~/.aws/config as profile=...") from error
        return self._session


BASE = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
FIELDS = "additionalModelRequestFields"
STREAM = "application/vnd.amazon.eventstream"
VERSION = "bedrock-2023-05-31"

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_ARN_REGION = re.compile(r"arn:aws[a-z-]*:bedrock:([a-z0-9-]+):")


class BedrockService(Service):
    """The base of both: the region, and the key or the signature."""

    _variable = "AWS_BEARER_TOKEN_BEDROCK"
    _accept = (STREAM,)
    _framing = EventStreamDecoder
    _vendors = ("anthropic", "amazon")
    _operation: str

    def __init__(
        self, model: str, *, region: str | None = None, profile: str | None = None, **settings: Unpack[Settings]
    ) -> None:
        super().__init__(model, **settings)
        if region is not None and not _REGION.fullmatch(region):
            raise ConfigurationError(f"the region {region!r} is not one; write it like us-east-1")
        self._region = region
        self._profile = profile
        self._signer = Signer(profile)
        self._last_token: str | None = None  # a session's token, to be masked

    def error(self, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """The error of a response that is not a stream, and its remedy. Its code is in a header."""
        named = {name.lower(): value for name, value in headers.items()}
        code = named.get("x-amzn-errortype", "").partition(":")[0]
        raw = read_repaired(body)
        if code and isinstance(raw, dict) and "code" not in raw:
            body = msgspec.json.encode({"code": code, **raw, "message": _message_of(raw)})
        return super().error(status, headers, body)

    def _url(self) -> str:
        base = self._base_url or os.environ.get(BASE)
        if not base:
            region = self._known_region()
            suffix = ".cn" if region.startswith("cn-") else ""
            base = f"https://bedrock-runtime.{region}.amazonaws.com{suffix}"
        return endpoint(base, f"/model/{quote(self.model, safe='')}/{self._operation}", "")

    def _authorization(self, url: str, given: str | None) -> dict[str, str]:
        del url
        return {"authorization": f"Bearer {read_key(given, self._variable, needed=True)}"}

    def _authorize_late(self, url: str, given: ApiKey | None) -> Authorize | None:
        """A key from a function, or a signature where there is no key."""
        # A profile that is named is meant, also where the environment has a key.
        if given or (os.environ.get(self._variable) and not self._profile):
            return super()._authorize_late(url, given)
        return partial(self._signed, self._known_region())

    def _signed(self, region: str, request: HttpRequest) -> HttpRequest:
        signed = self._signer.sign(request, region)
        self._last_token = signed.headers.get("x-amz-security-token")
        return signed

    def _known_region(self) -> str:
        in_arn = _ARN_REGION.match(self.model)
        named = self._region or (in_arn[1] if in_arn else None)
        region = named or next(filter(None, map(os.environ.get, ("AWS_REGION", "AWS_DEFAULT_REGION"))), None)
        region = region or self._signer.region()
        if region is None:
            raise ConfigurationError("no AWS region: set AWS_REGION, or pass region='us-east-1'")
        return region

    def _secrets(self) -> tuple[str | None, ...]:
        return (*super()._secrets(), *current_secrets(self._last_token, "AWS_SECRET_ACCESS_KEY"))


class Bedrock(BedrockService):
    """A model of Amazon Bedrock, by the Converse protocol.

    Args:
        model: The id of a model or an inference profile, or its ARN, for example ``us.amazon.nova-pro-v1:0``.
        region: The region; without one, that of an ARN, ``AWS_REGION``, ``AWS_DEFAULT_REGION``, or that of the profile.
        api_key: A key of Bedrock; without one, ``AWS_BEARER_TOKEN_BEDROCK`` is read for each request. Without either,
            requests are signed with AWS credentials, for which the extra ``bedrock`` is needed.
        profile: The name of the AWS profile whose credentials sign the requests.
        base_url: Where the service is, for example a VPC endpoint; without one, ``AWS_ENDPOINT_URL_BEDROCK_RUNTIME``,
            or else that of the region.
        address: The whole address of the requests, which is used unchanged.
        headers: Headers for every request. With an ``authorization`` among them requests are neither keyed nor signed.

    Raises:
        ConfigurationError: The region or the ``base_url`` is not valid.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = Bedrock("us.amazon.nova-pro-v1:0", region="us-east-1", api_key="bedrock-api-key-x")
    >>> provider.request(Conversation(), (), Options()).url
    'https://bedrock-runtime.us-east-1.amazonaws.com/model/us.amazon.nova-pro-v1%3A0/converse-stream'
    """

    name = NAME
    _operation = "converse-stream"
    _frame_decoder = BedrockDecoder
    _numbers = staticmethod(numbers)

    def _settled(self, request: Draft) -> Options:
        options = request.options
        if not request.info.bound:
            return options
        fields = as_object(options.extra.get(FIELDS))
        bound = with_binding(replace(request, options=replace(options, extra=fields)), None)
        if bound.extra is not fields:
            fields = {**bound.extra, "anthropic_beta": [*as_array(fields.get("anthropic_beta")), BINDING_BETA]}
            options = replace(options, extra={**options.extra, FIELDS: fields})
        return options

    def _body(self, request: Draft) -> bytes:
        return msgspec.json.encode(encode(self.model, request, request.info))


class InvokeDecoder:
    """Messages of an invoked model's stream, each of which carries an event of Anthropic's stream in base64."""

    def __init__(self) -> None:
        self._decoder = AnthropicDecoder()
        self.blocks = self._decoder.blocks

    def feed(self, message: EventStreamMessage, /) -> Events:
        """Take the next message; return what happened."""
        raw = read_repaired(message.payload)
        if message.headers.get(":message-type") in ("exception", "error"):
            failure = stream_failure(message.headers, raw)
            data = msgspec.json.encode({"type": "error", "error": {"message": failure.message, "type": failure.code}})
        else:
            data = _bytes_in(raw) or message.payload  # without base64, as received
        return self._decoder.feed(SseFrame(data))

    def finish(self) -> Events:
        """The bytes ended."""
        return self._decoder.finish()


def _bytes_in(raw: Json) -> bytes | None:
    """The bytes that a message carries, if it carries any."""
    within = as_object(raw).get("bytes")
    try:
        return base64.b64decode(within, validate=True) if isinstance(within, str) else None
    except ValueError:
        return None


class AnthropicBedrock(BedrockService):
    """Claude on Amazon Bedrock, by Anthropic's own Messages protocol (InvokeModelWithResponseStream).

    Its messages are those of `Anthropic`: a conversation may go on with either.

    Args:
        model: The id of a model or an inference profile, or its ARN.
        region: As for `Bedrock`.
        api_key: As for `Bedrock`.
        profile: As for `Bedrock`.
        base_url: As for `Bedrock`.
        address: As for `Bedrock`.
        headers: As for `Bedrock`.
        info: As for `Bedrock`.
        max_tokens: The maximum of tokens of an answer, if the request's options have none.

    Raises:
        ConfigurationError: The region or the ``base_url`` is not valid.

    >>> from rxworker.providers import Options
    >>> from rxworker.messages import Conversation
    >>> provider = AnthropicBedrock("anthropic.claude-haiku-4-5-20251001-v1:0", region="eu-west-1", api_key="k")
    >>> provider.request(Conversation(), (), Options()).url.rpartition("/")[2]
    'invoke-with-response-stream'
    """

    name = "anthropic"
    _operation = "invoke-with-response-stream"
    _frame_decoder = InvokeDecoder
    _numbers = staticmethod(numbers_of_messages)

    def __init__(
        self,
        model: str,
        *,
        region: str | None = None,
        profile: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        **settings: Unpack[Settings],
    ) -> None:
        super().__init__(model, region=region, profile=profile, **settings)
        self._room = max_tokens
        self._messages = RequestEncoder(model, max_tokens, VERSION, ("model", "stream"))

    def _settled(self, request: Draft) -> Options:
        return with_binding(request, self._headers.get(BETAS))

    def _body(self, request: Draft) -> bytes:
        headers = self._headers | checked_headers(request.options.headers)
        return self._messages.encode(request, betas=headers.get(BETAS))  # read in the body


def _message_of(raw: Mapping[str, object]) -> object:
    """The text of an error; some of AWS's services write its name in capitals."""
    return raw.get("message") or raw.get("Message") or "the service gave no reason"
