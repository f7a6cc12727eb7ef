"""What no topic takes is refused, and is nobody's fault but the caller's."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.rest.herder import Herder


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
async def test_a_configuration_that_is_too_large_is_refused(code: ErrorCode) -> None:
    async def write() -> None:
        raise KafkaError(code)

    with pytest.raises(RestError, match="larger than the topic") as refused:
        await Herder(cast("Any", SimpleNamespace()))._write(write)
    assert refused.value.status == 400
