from penstock.coordinator.group.classic.history import ALSO_LENGTH, Rebalance


def test_a_rebalance_in_one_line() -> None:
    rebalance = Rebalance(1000, "member a left", 3, also=["member b is new"])
    unknown = rebalance.length_ms, rebalance.ended_ms, rebalance.generation, rebalance.until_ms, rebalance.formed_ms
    assert unknown == (-1,) * 5
    assert rebalance.describe() == "under way: member a left; member b is new"
    rebalance.ended_ms, rebalance.outcome, rebalance.generation, rebalance.members = 1200, "stable", 4, 2
    rebalance.removed.append("c")
    assert rebalance.describe() == (
        "generation 4 with 2 members after 200 ms: member a left; member b is new; removed as too late: c"
    )


def test_what_a_client_says_stays_in_its_line() -> None:
    rebalance = Rebalance(0, "member a left (client: bye\nERROR all is lost)", 1, ended_ms=0, outcome="empty")
    assert rebalance.describe() == "empty after 0 ms: member a left (client: bye?ERROR all is lost)"


def test_what_interrupts_a_rebalance_is_told_once_and_so_are_those_before() -> None:
    """The first of them remembers the others, as many as it may."""
    before = Rebalance(1000, "first", 3)
    for number in range(ALSO_LENGTH + 3):
        rebalance = Rebalance(2000, f"number {number}", 3)
        rebalance.interrupts(before)
        before = rebalance
    others = [f"number {number}" for number in range(ALSO_LENGTH)]
    assert before.causes == ["first", *others, f"number {ALSO_LENGTH + 2}"]
    assert (before.began_ms, before.earlier and before.earlier.causes) == (1000, ["first", *others])
