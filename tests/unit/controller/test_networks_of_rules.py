"""From which level of metadata.version on a rule may be about a network."""

import pytest

from penstock.controller.acls import _check
from penstock.metadata.features import CIDR_LEVEL
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode, KafkaError

RULE = AclBinding(Resource.TOPIC, "t", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)


@pytest.mark.parametrize(
    ("host", "level", "code"),
    [
        ("10.0.0.0/8", CIDR_LEVEL, None),
        ("10.0.0.0/8", CIDR_LEVEL - 1, ErrorCode.UNSUPPORTED_VERSION),
        ("10.0.0.1", CIDR_LEVEL - 1, None),
        ("*", CIDR_LEVEL - 1, None),
        ("10.0.0.0/33", CIDR_LEVEL, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_network_needs_its_level(host: str, level: int, code: ErrorCode | None) -> None:
    if code is None:
        _check(RULE._replace(host=host), level)
        return
    with pytest.raises(KafkaError) as refusal:
        _check(RULE._replace(host=host), level)
    assert refusal.value.code == code
