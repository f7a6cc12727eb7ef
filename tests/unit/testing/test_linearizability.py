from itertools import permutations
from random import Random

import pytest

from penstock.testing import linearizability
from penstock.testing.linearizability import History, Operation, TooHardError, violations


def write(value: str, called: int, returned: int | None, key: str = "x") -> Operation:
    return Operation("w", key, True, value, called, returned)


def read(value: str | None, called: int, returned: int | None, key: str = "x") -> Operation:
    return Operation("r", key, False, value, called, returned)


def test_one_after_the_other() -> None:
    assert violations([read(None, 1, 2), write("a", 3, 4), read("a", 5, 6), write("b", 7, 8), read("b", 9, 10)]) == []


def test_nothing_happened() -> None:
    assert violations([]) == []


def test_a_read_beside_a_write_sees_either() -> None:
    for seen in (None, "a"):
        assert violations([write("a", 1, 4), read(seen, 2, 3)]) == []


def test_a_stale_read() -> None:
    found = violations([write("a", 1, 2), write("b", 3, 4), read("a", 5, 6)])
    assert len(found) == 1
    assert "r reads x=a" in found[0]


def test_a_read_of_what_nobody_wrote() -> None:
    assert len(violations([write("a", 1, 2), read("z", 3, 4)])) == 1


def test_a_value_that_was_seen_does_not_go_again() -> None:
    """Both reads lie within the write, yet the second, which begins when the first has ended, is older."""
    assert len(violations([write("a", 1, 10), read("a", 2, 3), read(None, 4, 5)])) == 1


def test_a_write_that_is_applied_twice() -> None:
    operations = [write("a", 1, 10), read("a", 2, 3), write("b", 4, 5), read("b", 6, 7), read("a", 8, 9)]
    assert violations(operations[:4]) == []
    assert len(violations(operations)) == 1


@pytest.mark.parametrize("seen", [None, "a"])
def test_a_write_without_an_answer_happened_or_did_not(seen: str | None) -> None:
    assert violations([write("a", 1, None), read(seen, 2, 3), read(seen, 4, 5)]) == []


def test_a_write_without_an_answer_does_not_happen_before_its_call() -> None:
    assert len(violations([read("a", 1, 2), write("a", 3, None)])) == 1


def test_a_write_without_an_answer_may_happen_late_but_once() -> None:
    operations = [write("a", 1, None), write("b", 2, 3), read("b", 4, 5), read("a", 6, 7)]
    assert violations(operations) == []
    assert len(violations([*operations, read("b", 8, 9)])) == 1


def test_a_read_without_an_answer_says_nothing() -> None:
    assert violations([write("a", 1, 2), read(None, 3, None)]) == []


def test_keys_are_independent() -> None:
    operations = [write("a", 1, 2, "x"), write("b", 3, 4, "y"), read("a", 5, 6, "x"), read(None, 7, 8, "y")]
    (found,) = violations(operations)
    assert "what was done to y" in found


def test_a_history_records_what_clients_saw() -> None:
    history = History()
    first = history.call("one", "x", write="a")
    second = history.call("two", "x")
    history.returned(second, None)
    history.returned(first)
    history.refused(history.call("one", "x", write="never"))
    history.returned(history.call("two", "x"), "a")
    history.call("three", "x", write="lost")
    assert violations(history.operations) == []
    history.returned(history.call("two", "x"), None)
    assert len(violations(history.operations)) == 1


def random_history(random: Random) -> list[Operation]:
    count = random.randrange(1, 7)
    times = random.sample(range(100), 2 * count)
    operations = []
    for first, second in zip(times[::2], times[1::2], strict=True):
        called, returned = min(first, second), max(first, second)
        value = random.choice("ab")
        if random.random() < 0.5:
            operations.append(write(value, called, returned if random.random() < 0.8 else None))
        else:
            operations.append(read(random.choice((None, value)), called, returned))
    return operations


def some_order_explains(operations: list[Operation]) -> bool:
    """The definition, word by word."""
    pending = [operation for operation in operations if operation.returned is None]
    for left_out in range(1 << len(pending)):
        absent = {id(operation) for number, operation in enumerate(pending) if left_out >> number & 1}
        happened = [operation for operation in operations if id(operation) not in absent]
        if any(is_allowed(order) for order in permutations(happened)):
            return True
    return False


def is_allowed(order: tuple[Operation, ...]) -> bool:
    value: str | None = None
    for number, operation in enumerate(order):
        if any(later.returned is not None and later.returned < operation.called for later in order[number:]):
            return False
        if operation.is_write:
            value = operation.value
        elif operation.value != value:
            return False
    return True


def test_it_agrees_with_the_definition() -> None:
    verdicts = {True: 0, False: 0}
    for seed in range(1500):
        operations = random_history(Random(seed))
        expected = some_order_explains(operations)
        verdicts[expected] += 1
        assert (violations(operations) == []) == expected, f"seed {seed}"
    assert min(verdicts.values()) > 200


def test_a_long_history_takes_no_exponential_time() -> None:
    """20 clients at once on one key, and 20 writes whose answers were lost."""
    history, value = History(), ""
    for number in range(20):
        history.call(f"lost {number}", "x", write=f"lost {number}")
    for turn in range(100):
        writes = [history.call(f"w{n}", "x", write=f"{turn}.{n}") for n in range(10)]
        reads = [history.call(f"r{n}", "x") for n in range(10)]
        for operation in reads:
            history.returned(operation, None if turn == 0 else value)
        for operation in writes:
            history.returned(operation)
        value = f"{turn}.9"
    assert violations(history.operations) == []


def test_a_search_that_does_not_end_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linearizability, "MAX_STEPS", 10)
    with pytest.raises(TooHardError, match="21 operations"):
        violations([*(write(str(number), number, 100) for number in range(20)), read("none", 101, 102)])
