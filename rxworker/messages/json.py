"""What JSON text decodes to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = (
        "bool | int | float | str | list[Json] | tuple[Json, ...] | dict[str, Json] | None"
    )
else:
    # msgspec resolves the annotations of a Struct when it first decodes one, and has no recursive aliases.
    Json = Any

JsonObject: TypeAlias = dict[str, Json]

__all__ = ["Json", "JsonObject"]
