"""What clients pushed is kept within bounds: the newest, of clients that are not silent."""

from __future__ import annotations

from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.node.serving.session import Session
from penstock.node.telemetry.otlp import Point
from penstock.node.telemetry.received import MOST_OF_A_CLIENT, Received, as_shown
from penstock.node.telemetry.receiver import MOST_KEPT, TelemetryReceiver
from penstock.node.telemetry.subscriptions import Attributes

NOW_MS = 1_700_000_000_000


def client(number: int) -> Attributes:
    return Attributes(client_instance_id=UUID(int=number), client_id=f"client {number}")


def values(received: Received, number: int) -> dict[str, float]:
    return {figure.name: figure.value for figure in received.figures_of(UUID(int=number))}


def test_totals_replace_and_deltas_add_up() -> None:
    received = Received()
    for _ in range(2):
        points = [Point("org.apache.kafka.a.total", (), 5.0, False), Point("b", (), 5.0, True)]
        received.take(client(1), as_shown(points), 1000, NOW_MS)
    assert values(received, 1) == {"kafka_client_a_total": 5.0, "kafka_client_b": 10.0}
    assert dict(received.figures_of(UUID(int=1))[0].labels)["client_id"] == "client 1"


def test_names_and_labels_are_such_that_a_page_may_have() -> None:
    received = Received()
    labels = (("a.b", "1"), ("a-b", "2"), ("client_id", "forged"))
    points = [Point('x{y="z"} 1\n', labels, 1.0, False), Point("n", (), float("nan"), False)]
    received.take(client(1), as_shown(points), 1000, NOW_MS)
    (figure,) = received.figures_of(UUID(int=1))
    assert figure.name == "kafka_client_x_y__z___1_"
    assert figure.labels[-2:] == (("metric_a_b", "2"), ("metric_client_id", "forged"))


def test_a_silent_client_is_forgotten() -> None:
    received = Received()
    received.take(client(1), [Point("a", (), 1.0, False)], 100_000, NOW_MS)
    received.forget_if_silent(UUID(int=1), NOW_MS + 300_000)
    assert received.count == 1
    received.forget_if_silent(UUID(int=1), NOW_MS + 300_001)
    assert (received.count, len(received)) == (0, 0)


def test_who_pushes_no_figure_is_not_kept() -> None:
    """Anybody may make up as many clients as he likes."""
    received = Received()
    for number in range(100):
        received.take(client(number), as_shown([Point("a", (), float("inf"), False)] * (number % 2)), 1000, NOW_MS)
    assert len(received) == 0
    received.take(client(1), [Point("a", (), 1.0, False)], 1000, NOW_MS)
    received.take(client(1), [], 1000, NOW_MS + 50_000)
    received.forget_if_silent(UUID(int=1), NOW_MS + 100_000)
    assert len(received) == 1, "it is not silent"


def test_a_thread_makes_the_keys() -> None:
    """Seventeen names of each point are looked through: too many for the loop."""
    point = Point("org.apache.kafka.a.b", (("c.d", "1"),), 5.0, False)
    (found,) = as_shown([point, point._replace(value=float("nan"))])
    assert found == Point("kafka_client_a_b", (("metric_c_d", "1"),), 5.0, False)
    received = Received()
    received.take(client(1), [found], 1000, NOW_MS)
    (figure,) = received.figures_of(UUID(int=1))
    assert (figure.name, figure.labels[-1]) == ("kafka_client_a_b", ("metric_c_d", "1"))


def test_figures_are_bounded_of_one_client_and_of_all() -> None:
    received = Received(most=1_000)
    many = [Point(f"a{number}", (), 1.0, False) for number in range(10_000)]
    for number in range(5):
        received.take(client(number), many, 1000, NOW_MS)
        assert len(received.figures_of(UUID(int=number))) == MOST_OF_A_CLIENT
    assert (received.count, len(received)) == (1_000, 2)
    for number in range(20_000):
        received.take(client(number), many[:1], 1000, NOW_MS)
    assert received.count <= 1_000


def test_names_are_bounded_of_one_client_and_of_all() -> None:
    """Else the page of figures has hundreds of megabytes, and nobody reads it."""
    received = Received(most_characters=100_000)
    labels = tuple((f"{number}" * 200, "x" * 200) for number in range(10))
    for number in range(100):
        many = [Point(f"a{index}", labels, 1.0, False) for index in range(10)]
        received.take(client(number).replace(client_id="c" * 32_000), many, 1000, NOW_MS)
        told = [figure for one in received.clients() for figure in received.figures_of(one)]
        said = sum(len(name) + len(value) for figure in told for name, value in figure.labels)
        assert 0 < said <= 100_000
        assert received.count == len(told)
    for one in received.clients():
        received.forget_if_silent(one, NOW_MS + 10_000_000)
    received.take(client(1), many, 1000, NOW_MS)
    assert received.count == 10, "what was forgotten takes no room"


def test_of_what_a_client_calls_itself_only_so_much_is_kept() -> None:
    """It is kept of very many connections, also of those that have ended."""
    receiver, session = TelemetryReceiver(ClusterImage(), 1000), Session("10.0.0.1", 1, "PLAINTEXT", 1)
    receiver.named_software(session, "n" * 30_000, "v" * 30_000)
    found = receiver.attributes(session, "app", UUID(int=1))
    assert (found.client_software_name, found.client_software_version) == ("n" * MOST_KEPT, "v" * MOST_KEPT)
