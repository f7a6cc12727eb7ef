"""What a client may do, as the bit fields of Metadata and DescribeCluster tell it (KIP-430): a bit for each operation.

Nobody is refused anything yet, so each field holds all operations that there are for such a resource.
"""

from collections.abc import Iterable

from penstock.node.serving.access import Operation

NOT_ASKED = -(2**31)
"""What stands in a response if the client did not ask."""


def _bits(operations: Iterable[Operation]) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(set(Operation) - {Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE})
CLUSTER_OPERATIONS = _bits(set(Operation) - {Operation.READ, Operation.WRITE, Operation.DELETE})
