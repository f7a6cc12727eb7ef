from penstock.coordinator.group.classic.history import Rebalance


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
