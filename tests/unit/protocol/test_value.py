import copy
import pickle

import pytest

from penstock.protocol.value import Value, fresh


class Point(Value):
    x: int
    y: int = 0

    @property
    def sum(self) -> int:
        return self.x + self.y


class Other(Value):
    x: int
    y: int = 0


class Single(Value):
    items: tuple[int, ...] = ()


class Nothing(Value):
    """It has no fields."""


class Settings(Value, kw_only=True):
    size: int = 1
    names: list[str] = fresh(list)


class MoreSettings(Settings, kw_only=True):
    level: int
    places: dict[str, int] = fresh(dict)


def test_construction_is_by_position_or_name_with_defaults() -> None:
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert Point(1, 2) == Point(y=2, x=1)
    assert Point(1, 2).sum == 3
    assert Single() == Single(())
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="z"):
        Point(1, z=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="x"):
        Point(y=1)  # type: ignore[call-arg]


def test_values_are_compared_by_what_they_hold_and_by_their_class() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != Other(1, 2)
    assert Nothing() == Nothing() != Single()
    assert {Point(1, 2), Point(1, 2), Point(2, 1)} == {Point(2, 1), Point(1, 2)}
    assert len({Nothing(), Nothing(), Single((1,)), Single((1,))}) == 2


def test_a_value_cannot_be_changed() -> None:
    point = Point(1, 2)
    with pytest.raises(AttributeError, match=r"Point\.x cannot be changed"):
        point.x = 3  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Point\.x cannot be changed"):
        del point.x
    with pytest.raises(AttributeError):
        point.z = 3
    assert not hasattr(point, "__dict__")
    assert point.replace(x=3) == Point(3, 2)
    assert point == Point(1, 2)


def test_its_text_its_copies_and_its_patterns() -> None:
    assert repr(Point(1, y=2)) == "Point(x=1, y=2)"
    assert repr(Nothing()) == "Nothing()"
    assert copy.deepcopy(Point(1, 2)) == pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_a_class_may_take_its_fields_by_name_only() -> None:
    assert Settings(size=2).size == 2
    with pytest.raises(TypeError, match="positional"):
        Settings(2)  # type: ignore[call-arg]
    assert copy.copy(Settings(size=2)) == pickle.loads(pickle.dumps(Settings(size=2))) == Settings(size=2)


def test_a_fresh_default_is_made_for_each_value() -> None:
    one, another = Settings(), Settings()
    one.names.append("a")
    assert (one.names, another.names) == (["a"], [])
    assert Settings(names=one.names).names is one.names


def test_a_subclass_adds_fields_to_those_of_its_base() -> None:
    Settings()  # the base is made first: each class has an __init__ of its own
    more = MoreSettings(level=3, size=4)
    assert repr(more) == "MoreSettings(size=4, names=[], level=3, places={})"
    assert MoreSettings.__fields__ == ("size", "names", "level", "places")
    assert more == more.replace(level=3) != more.replace(size=5)
    assert pickle.loads(pickle.dumps(more)) == more
    assert not hasattr(more, "__dict__")
