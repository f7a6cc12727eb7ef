import pytest

from penstock.protocol.codec import decode, encode
from penstock.protocol.schema import Message, array, field, parse_versions, struct


class Leaf(Message):
    name: str = field("string", "0+", default="")


class Tree(Message, versions="0-3", flexible="2+"):
    size: int = field("int32", "1+", default=-1)
    label: str | None = field("string", "0+", nullable="1+", default=None)
    first: Leaf = struct(Leaf, "0+", default_factory=Leaf)
    leaves: list[Leaf] = array(Leaf, "0-2", default_factory=list)


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("2+", [2, 3, 900], [1]), ("1-3", [1, 3], [0, 4]), ("4", [4], [3, 5]), ("", [], [0])],
)
def test_versions(text: str, inside: list[int], outside: list[int]) -> None:
    versions = parse_versions(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)


def test_defaults_are_not_shared() -> None:
    one, other = Tree(), Tree()
    one.leaves.append(Leaf(name="a"))
    one.first.name = "b"
    assert other == Tree(size=-1, label=None, first=Leaf(name=""), leaves=[])


def test_equality_and_text() -> None:
    assert Leaf(name="a") == Leaf(name="a") != Leaf(name="b")
    assert Leaf() != "Leaf"
    assert repr(Leaf(name="a")) == "Leaf(name='a')"
    with pytest.raises(TypeError):
        hash(Leaf())


def test_replace_is_a_copy() -> None:
    tree = Tree(size=3, label="x")
    assert tree.replace(label="y") == Tree(size=3, label="y")
    assert tree.label == "x"


def test_slots_and_names_are_checked() -> None:
    with pytest.raises(AttributeError):
        Leaf().colour = "green"  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        Leaf(colour="green")  # type: ignore[call-arg]


def test_version_range() -> None:
    assert list(Tree.version_range()) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("tree", "whole_in"),
    [
        (Tree(), [1, 2, 3]),
        (Tree(label=""), [0, 1, 2, 3]),
        (Tree(label="x", size=3), [1, 2, 3]),
        (Tree(label="x", leaves=[Leaf(name="a")]), [0, 1, 2]),
        (Tree(label="x", size=3, first=Leaf(name="a"), leaves=[Leaf()]), [1, 2]),
    ],
)
def test_a_version_has_room_for_all_or_not(tree: Tree, whole_in: list[int]) -> None:
    """What has room comes out of that version as it was."""
    assert [version for version in Tree.version_range() if tree.is_whole_in(version)] == whole_in
    for version in whole_in:
        assert decode(Tree, version, encode(tree, version))[0] == tree
    for version in {0, 3}.difference(whole_in) if tree.label is not None else ():
        assert decode(Tree, version, encode(tree, version))[0] != tree
