"""What a provider imports, in one place: how-to pages "Add a provider" and "Use a model of your own".

Framing cuts bytes into frames, a decoder makes events of them with a `BlockFactory`, and `BatchDecoder` joins the two.
A request gets its address, its key and its headers checked here, and an answer that is not a stream is explained.
"""

from rxworker.framing import EventStreamDecoder, NdjsonDecoder, SseDecoder
from rxworker.framing.sse import SseFrame
from rxworker.messages.lenient_json import read_json
from rxworker.providers.base import HttpRequest, Options, Provider, Request, ResponseDecoder
from rxworker.providers.batch_decoder import BatchDecoder
from rxworker.providers.block_factory import CUT, BlockFactory
from rxworker.providers.content import arguments
from rxworker.providers.endpoint import base_address, checked_headers, current_secrets, endpoint, read_key
from rxworker.providers.failure import Failure, read_failure
from rxworker.providers.finish_reasons import stop_kind
from rxworker.providers.fit import with_extra
from rxworker.providers.malformed import unreadable
from rxworker.providers.openai_chat.dialects import Dialect
from rxworker.providers.service import explain
from rxworker.providers.usage import numbers_in, total

__all__ = [
    # bytes to frames to events
    "SseDecoder",
    "SseFrame",
    "NdjsonDecoder",
    "EventStreamDecoder",
    "BatchDecoder",
    "BlockFactory",
    # what a decoder reads
    "read_json",
    "unreadable",
    "stop_kind",
    "numbers_in",
    "total",
    "Failure",
    "read_failure",
    "CUT",
    # requests
    "Provider",
    "Request",
    "Options",
    "HttpRequest",
    "ResponseDecoder",
    "base_address",
    "endpoint",
    "read_key",
    "current_secrets",
    "checked_headers",
    "arguments",
    "with_extra",
    "explain",
    # servers that are compatible with OpenAI's
    "Dialect",
]
