"""A function as a tool."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import CoroutineType, MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from rxworker.errors import ConfigurationError, ExecutionFailedError, ToolError
from rxworker.messages import ResultContent, ToolMeta, ToolResult
from rxworker.tools.arguments import ArgumentDecoder
from rxworker.tools.base import ToolPolicy
from rxworker.tools.context import ToolContext
from rxworker.tools.results import describe, to_result
from rxworker.tools.settle import settle, settle_generator
from rxworker.tools.thread import in_thread

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
B_co = TypeVar("B_co", covariant=True)


class FunctionTool(Generic[P, B_co]):
    """A function as a tool, made by `tool`. Called from Python it is the function it was.

    In a class it is a method: ``app.get_user`` is the tool of that one object.

    Attributes:
        meta: What the model is told of it.
        policy: How it may be run.
        unbound: Whether it is a method that still lacks its object.
    """

    def __init__(
        self,
        function: Callable[P, B_co],
        meta: ToolMeta,
        arguments: ArgumentDecoder,
        policy: ToolPolicy,
        *,
        on_loop: bool,
        unbound: bool,
    ) -> None:
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        functools.update_wrapper(self, function)
        self._function: Callable[..., Any] = function
        self._arguments = arguments
        self._on_loop = on_loop
        self.meta = meta
        self.policy = policy
        self.unbound = unbound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> B_co:
        """Call the function."""
        return self._function(*args, **kwargs)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(
        self: FunctionTool[Concatenate[S, Q], B_co], instance: S, owner: type
    ) -> FunctionTool[Q, B_co]: ...
    def __get__(self, instance: Any, owner: type) -> FunctionTool[..., Any]:
        """The tool of one object."""
        if instance is None or not self.unbound:
            return self
        return FunctionTool(
            MethodType(self._function, instance),
            self.meta,
            self._arguments,
            self.policy,
            on_loop=self._on_loop,
            unbound=False,
        )

    def __repr__(self) -> str:
        return f"<tool {self.meta.name!r} {self.__module__}.{self.__qualname__}>"

    async def execute(
        self, input_json: str | bytes, context: ToolContext | None = None, /
    ) -> ResultContent | ToolResult:
        """Decode the arguments, run the function, and make its result something to read.

        Args:
            input_json: The arguments as a JSON object.
            context: The call; a stand-in where the tool is tried out by itself.

        Raises:
            InvalidArgumentError: The arguments do not fit the signature.
            ExecutionFailedError: The function raised, or its result has no JSON form.
        """
        name = self.meta.name
        if self.unbound:
            raise ConfigurationError(
                f"tool {name!r} is a method and has no object: take it from one"
            )
        context = ToolContext(tool=name) if context is None else context
        try:
            args, kwargs = self._arguments.decode(input_json, context)
            if self._on_loop:
                value: Any = self._function(*args, **kwargs)
            else:
                value = await in_thread(partial(self._work, args, kwargs, context))
            if value.__class__ is CoroutineType:  # as most tools do
                value = await value
            if isinstance(value, str):
                return value
            return to_result(await settle(value, context), name)
        except ToolError:
            raise
        except Exception as error:
            raise ExecutionFailedError(describe(error), tool=name) from error

    def _work(self, args: Sequence[Any], kwargs: dict[str, Any], context: ToolContext) -> object:
        """Call the function, in a thread. A generator is followed there too."""
        value: object = self._function(*args, **kwargs)
        if isinstance(value, Generator):
            return settle_generator(cast("Generator[object, None, object]", value), context)
        return value


__all__ = ["FunctionTool"]
