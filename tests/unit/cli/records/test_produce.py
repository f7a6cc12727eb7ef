"""Options of `penstock produce` that stand for settings of the producer."""

from click.testing import CliRunner, Result
from tests.unit.client.fake_broker import Reply
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, served_in_a_thread

from penstock.cli.main import main
from penstock.cli.records.produce import NUMBERS
from penstock.client.properties import with_properties
from penstock.client.settings import ProducerSettings
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.produce import ProduceRequest
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.schema import Message


class Silent(FakeCluster):
    """Takes records and says nothing; with no partitions it does not even take them."""

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if isinstance(request, ProduceRequest):
            return None
        response = super().__call__(header, request)
        if isinstance(request, MetadataRequest) and not self.partitions:
            assert not isinstance(response, bytes | None)
            response.topics = []  # type: ignore[attr-defined]
        return response


def produce(cluster: FakeCluster, *options: str) -> Result:
    with served_in_a_thread(cluster) as broker:
        arguments = ["produce", "--topic", TOPIC, "--bootstrap-server", str(broker.address), *options]
        return CliRunner().invoke(main, arguments, input="v\n")


def test_a_broker_that_does_not_answer_in_time_fails_the_record() -> None:
    result = produce(Silent(), "--request-timeout-ms", "200", "--message-send-max-retries", "0")
    assert "did not answer within 200 ms" in result.output
    assert result.exit_code == 1


def test_a_send_blocks_no_longer_than_it_is_told() -> None:
    result = produce(Silent(partitions=0), "--max-block-ms", "1")
    assert "topic 't' does not exist" in result.output
    assert result.exit_code == 1


def test_each_number_is_a_setting_of_the_producer() -> None:
    changed = with_properties(ProducerSettings(), {key: "1" for key, _, _ in NUMBERS.values()})
    assert (changed.batch_size, changed.linger_ms, changed.max_block_ms, changed.retries) == (1, 1, 1, 1)
