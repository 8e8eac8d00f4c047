"""A client that measures what its requests read from the provider's cache."""

from __future__ import annotations

import reactivex
from msgspec.structs import replace
from reactivex import Observable, abc
from reactivex import operators as ops

from rxworker.events import ResponseEvent
from rxworker.messages import Conversation
from rxworker.providers.base import HttpRequest, Request
from rxworker.providers.cache_use import CacheUse, changed_by, step_cache
from rxworker.transport.client import Client, as_request


class CacheMeter(Client):
    """A `Client` that measures what the requests of one conversation read from the provider's cache.

    It takes the arguments of `Client`. Each request is compared with the one before: give each conversation a meter of
    its own.

    Attributes:
        use: What was read so far, and what the last request has changed of the one before.

    Example:
        >>> from rxworker.providers import Anthropic, Options
        >>> from rxworker.transport import RecordingTransport
        >>> meter = CacheMeter(Anthropic("claude-sonnet-5-5", api_key="k"), transport=RecordingTransport(b""))
        >>> for system in ("It is 12:01.", "It is 12:02."):
        ...     _ = meter.stream(Request(Conversation(system=system))).subscribe(on_error=lambda error: None)
        >>> print(meter.use.change)
        a time stamp in system[0].text (system) differs from byte 10: 'It is 12:01.' became 'It is 12:02.'
    """

    use: CacheUse = CacheUse()
    _before: Request | None = None

    def stream(self, request: Request | Conversation | str) -> Observable[ResponseEvent]:
        """The answer as events; see `Client.stream`."""
        full = as_request(request)

        def begin(_: abc.SchedulerBase) -> Observable[ResponseEvent]:
            try:
                sent = self.provider.request(full.conversation, full.tools, full.options)
            except Exception:
                return events  # which fails with the same error
            self._begin(full, sent)
            return events.pipe(ops.do_action(self._take))

        events = super().stream(full)
        return reactivex.defer(begin)

    def _begin(self, request: Request, sent: HttpRequest) -> None:
        use, before = step_cache(self.use, sent), self._before
        if use.change is not None and before is not None:
            hook = changed_by(use.change, self.provider, before, request)
            use = replace(use, change=replace(use.change, hook=hook))
        self.use, self._before = use, request

    def _take(self, event: ResponseEvent) -> None:
        self.use = step_cache(self.use, event)
