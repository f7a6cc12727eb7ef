"""What a node counts while it serves: totals that never fall, topics that share an entry, requests that wait."""

from penstock.node.metrics.counts import ApiCounts, NodeCounts, TopicCounts


def test_a_topic_that_goes_leaves_its_numbers_in_the_total() -> None:
    topics = TopicCounts()
    first, second = topics.enter("orders"), topics.enter("orders")
    assert first is second
    first.bytes_in, topics.enter("payments").bytes_in = 100, 7
    topics.leave("orders", first)
    assert topics.numbers("bytes_in") == (107, {"orders": 100, "payments": 7})
    topics.leave("orders", second)
    assert topics.numbers("bytes_in") == (107, {"payments": 7})
    topics.enter("orders").bytes_in = 1
    assert topics.numbers("bytes_in") == (108, {"payments": 7, "orders": 1})


def test_topics_beyond_the_limit_share_an_entry() -> None:
    topics = TopicCounts(most=1)
    topics.enter("a").bytes_in = 1
    third = topics.enter("c")
    assert topics.numbers("bytes_in") == (1, {"a": 1})
    for topic in ("b", "c"):
        traffic = topics.enter(topic)
        traffic.bytes_in += 10
        traffic.produces += 1
    assert topics.numbers("bytes_in") == (21, {"a": 1, "other": 20})
    topics.leave("c", third)
    assert topics.numbers("bytes_in")[0] == 21


def test_what_waits_is_begun_and_not_answered() -> None:
    api = ApiCounts()
    api.waits(3)
    assert (api.waiting, api.count, api.times.count) == (1, 1, 0)
    api.answered(1_000_000)
    api.done(4, 2_000_000)
    assert (api.waiting, api.count, api.times.count, api.times.sum) == (0, 2, 2, 3.0)
    assert (api.times.max, api.versions[3], api.versions[4]) == (2.0, 1, 1)


def test_a_request_done_at_once_is_observed_as_a_distribution_observes() -> None:
    at_once, later = ApiCounts(), ApiCounts()
    for took_ns in (0, 1, 255, 256, 10**9):
        at_once.done(0, took_ns)
        later.times.observe(took_ns)
    assert at_once.times.buckets == later.times.buckets
    assert (at_once.times.largest, at_once.times.total) == (later.times.largest, later.times.total)


def test_fetches_of_nodes_are_counted_apart() -> None:
    counts = NodeCounts()
    fetch = counts.api(1, splits=True)
    assert counts.api(1) is fetch
    fetch.of_nodes.waits(17)
    fetch.waits(17)
    assert (fetch.waiting, fetch.of_nodes.waiting, fetch.all_waiting) == (1, 1, 2)
    assert counts.api(3).of_nodes is counts.api(3)
