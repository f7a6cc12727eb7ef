"""Whether `penstock metadata checksum` sees that two nodes have made something else of the same records."""

import pytest

from penstock.cli.metadata import _contradictions
from penstock.client.quorum_admin import MetadataState


@pytest.mark.parametrize(
    ("states", "found"),
    [
        ([(1, 7, "a"), (2, 7, "a")], []),
        ([(1, 7, "a"), (2, 8, "b")], []),
        ([(1, 7, "a"), (2, 8, "b"), (3, 7, "c")], [(7, "1, 3")]),
        ([], []),
    ],
)
def test_nodes_at_the_same_offset_have_the_same_hash(
    states: list[tuple[int, int, str]], found: list[tuple[int, str]]
) -> None:
    assert _contradictions([MetadataState(node, offset, 1, checksum) for node, offset, checksum in states]) == found
