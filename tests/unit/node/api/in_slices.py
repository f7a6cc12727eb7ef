"""What a handler answers that may go in slices."""

from collections.abc import Awaitable
from types import GeneratorType
from typing import Any

from penstock.node.serving.slices import Slices


async def answer_of(reply: Any) -> Any:
    found = Slices().answer(reply) if isinstance(reply, GeneratorType) else reply
    return await found if isinstance(found, Awaitable) else found
