"""How a submitted command was refused."""

import asyncio
from typing import Any

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError


async def refused(submitted: asyncio.Future[Any]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        await submitted
    return caught.value.code
