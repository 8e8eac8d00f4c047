"""The part of the harness that a client needs. The harness itself, `_common.py`, lies beside the shared clients."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

MODELS: dict[str, str]
TOOLS: Mapping[str, Callable[..., Awaitable[str]]]

class Peer:
    name: str
    venv: str
    packages: Sequence[str]
    variants: Mapping[str, Mapping[str, tuple[str, ...]]]
    repeat: int
    base_url: str
    api: str
    variant: str
    model: str

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def stream(self, prompt: str, on_delta: Callable[[str], None]) -> None: ...
    async def tools(self, prompt: str, on_delta: Callable[[str], None]) -> None: ...

def run(cls: type[Peer]) -> None: ...
