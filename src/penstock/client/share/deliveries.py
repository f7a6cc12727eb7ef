"""The records that an application has got and not finished with.

| from | to | when |
| --- | --- | --- |
| delivered | acknowledged | the application says so (`acknowledge`), or for all in implicit mode |
| acknowledged | on its way | it is taken, to be sent (`take`) |
| on its way | gone | whatever became of it: with an error the broker gives it out again, in its time |
| on its way, to be renewed | delivered | the broker has renewed its lock |
"""

from collections.abc import Iterable, Sequence

from penstock.client.errors import ConsumerMisuseError
from penstock.client.share.acknowledgements import Acknowledgements, AcknowledgeType, Place
from penstock.client.share.records import Delivered, SharedRecord
from penstock.client.values import TopicPartition

FAILED = (AcknowledgeType.RELEASE, AcknowledgeType.REJECT)


class Deliveries:
    def __init__(self) -> None:
        self._delivered: dict[tuple[TopicPartition, int], tuple[SharedRecord, int, Place]] = {}
        """With the node that has given it out."""
        self._said: dict[tuple[TopicPartition, int], int] = {}
        self._delays_ms: dict[tuple[TopicPartition, int], int] = {}
        """Of those that are released, and have one of their own."""
        self._reasons: dict[tuple[TopicPartition, int], str] = {}
        """Why records are released or rejected, where that was said."""
        self._renewing: dict[tuple[Place, int], SharedRecord] = {}
        self._renewed: list[SharedRecord] = []
        self._gaps: list[Acknowledgements] = []

    def holds_of(self, node_id: int) -> bool:
        """Whether a node waits to hear of something that it has given out."""
        return any(node == node_id for _, node, _ in self._delivered.values())

    def deliver(self, some: Delivered) -> list[SharedRecord]:
        """The application gets these; what is no record of them is acknowledged as such."""
        for record in some.records:
            self._delivered[record.topic_partition, record.offset] = record, some.node_id, some.place
        if some.others:
            self._gaps.append(Acknowledgements(some.node_id, some.place, some.others))
        return some.records

    def acknowledge(
        self,
        partition: TopicPartition,
        offset: int,
        kind: AcknowledgeType,
        delay_ms: int | None = None,
        reason: str = "",
    ) -> None:
        """ConsumerMisuseError for a record that this consumer has not, or no longer, for a delay of one that does not
        come again, or for a reason where nothing failed. The last word counts.
        """
        if reason and kind not in FAILED:
            raise ConsumerMisuseError(f"the reason is {reason!r} for {kind!r}: only a release or a rejection has one")
        if delay_ms is not None and (kind != AcknowledgeType.RELEASE or delay_ms < 0):
            raise ConsumerMisuseError(f"delay_ms is {delay_ms} for {kind!r}: only a release has a delay, of 0 or more")
        if (partition, offset) not in self._delivered:
            raise ConsumerMisuseError(
                f"{partition} offset {offset} is no record that the last poll returned and that is not finished with"
            )
        self._said[partition, offset] = kind
        self._delays_ms.pop((partition, offset), None)
        self._reasons.pop((partition, offset), None)
        if delay_ms is not None:
            self._delays_ms[partition, offset] = delay_ms
        if reason:
            self._reasons[partition, offset] = reason

    def acknowledge_all(self, kind: AcknowledgeType, but: Iterable[SharedRecord] = ()) -> None:
        """Of which nothing was said, but for some."""
        left_out = {(record.topic_partition, record.offset) for record in but}
        for key in self._delivered:
            if key not in left_out:
                self._said.setdefault(key, kind)

    def release(self, records: Iterable[SharedRecord]) -> None:
        """Unless something was said of them."""
        for record in records:
            key = record.topic_partition, record.offset
            if key in self._delivered:
                self._said.setdefault(key, AcknowledgeType.RELEASE)

    def unsaid(self) -> list[SharedRecord]:
        """Of what the application has got: a record whose lock was renewed counts from when it gets that again."""
        comes_again = {(record.topic_partition, record.offset) for record in self._renewed}
        return [
            record
            for key, (record, _, _) in self._delivered.items()
            if key not in self._said and key not in comes_again
        ]

    def take(self) -> list[Acknowledgements]:
        """What was said, to be sent."""
        types: dict[tuple[int, Place], dict[int, int]] = {}
        delays: dict[tuple[int, Place], dict[int, int]] = {}
        reasons: dict[tuple[int, Place], dict[int, str]] = {}
        for key, kind in self._said.items():
            record, node_id, place = self._delivered.pop(key)
            types.setdefault((node_id, place), {})[record.offset] = kind
            if key in self._delays_ms:
                delays.setdefault((node_id, place), {})[record.offset] = self._delays_ms.pop(key)
            if key in self._reasons:
                reasons.setdefault((node_id, place), {})[record.offset] = self._reasons.pop(key)
            if kind == AcknowledgeType.RENEW:
                self._renewing[place, record.offset] = record
        self._said.clear()
        gaps, self._gaps = self._gaps, []
        said = [
            Acknowledgements(*where, found, delays.get(where), reasons.get(where)) for where, found in types.items()
        ]
        return [*gaps, *said]

    def done(self, some: Iterable[Acknowledgements]) -> None:
        """They were answered, or have failed: what is renewed is the application's again."""
        for one in some:
            for offset, kind in one.types.items():
                record = self._renewing.pop((one.place, offset), None) if kind == AcknowledgeType.RENEW else None
                if record is not None and one.error is None:
                    key = record.topic_partition, offset
                    self._delivered[key] = record, one.node_id, one.place
                    self._renewed.append(record)

    def take_renewed(self) -> Sequence[SharedRecord]:
        """Those that the application gets again, as it has not finished with them meanwhile."""
        renewed, self._renewed = self._renewed, []
        return [record for record in renewed if (record.topic_partition, record.offset) in self._delivered]
