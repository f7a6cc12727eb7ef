"""One session of a share consumer with one broker: which partitions it has there, and the requests that say so.

| epoch | what a request with it does |
| --- | --- |
| 0 | opens the session, and closes an earlier one; it has all partitions and no acknowledgements |
| 1, 2, … | goes on: has the partitions that come and go since the request before, and acknowledgements |
| -1 | closes it: the broker releases what is left |

One request is under way at a time. What was acknowledged in a session that is lost cannot be in the next one: the
broker has released those records.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from penstock.client.share.acknowledgements import Acknowledgements, Place, batches_by_place
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_acknowledge, share_fetch

OPENING: Final = 0
CLOSING: Final = -1
MAX_EPOCH: Final = 2**31 - 1
LOST: Final = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
"""The broker has no such session, or another one."""
NOT_OPEN: Final = (*LOST, ErrorCode.SHARE_SESSION_LIMIT_REACHED)


class ShareSession:
    def __init__(self, group_id: str, member_id: str) -> None:
        self._group_id = group_id
        self._member_id = member_id
        self._epoch = OPENING
        self._partitions: dict[Place, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether the broker knows it, as far as we know: acknowledgements may be sent."""
        return self._epoch > OPENING

    def fetch_request(
        self, wanted: Iterable[Place], some: Sequence[Acknowledgements], limits: share_fetch.ShareFetchRequest
    ) -> share_fetch.ShareFetchRequest:
        """For records of the partitions that are wanted now, no others; `limits` says how many, and how long to wait.

        There are acknowledgements only while the session is open.
        """
        assert self.is_open or not some
        before = self._partitions if self.is_open else {}
        self._partitions = dict.fromkeys(wanted)
        batches = batches_by_place(some)
        named = [place for place in self._partitions if place not in before]
        gone = [place for place in before if place not in self._partitions]
        gone += [place for place in batches if place not in self._partitions and place not in before]
        topics: dict[UUID, list[share_fetch.FetchPartition]] = {}
        for topic_id, index in dict.fromkeys([*named, *batches]):
            rows = [
                share_fetch.AcknowledgementBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    acknowledge_types=batch.types,
                    reason=batch.reason,
                    release_delays_ms=list(batch.delays_ms),
                )
                for batch in batches.get((topic_id, index), ())
            ]
            row = share_fetch.FetchPartition(partition_index=index, acknowledgement_batches=rows)
            topics.setdefault(topic_id, []).append(row)
        forgotten: dict[UUID, list[int]] = {}
        for topic_id, index in gone:
            forgotten.setdefault(topic_id, []).append(index)
        return limits.replace(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=self._epoch,
            topics=[share_fetch.FetchTopic(topic_id=one, partitions=rows) for one, rows in topics.items()],
            forgotten_topics_data=[
                share_fetch.ForgottenTopic(topic_id=one, partitions=rows) for one, rows in forgotten.items()
            ],
        )

    def acknowledge_request(
        self, some: Sequence[Acknowledgements], *, closes: bool = False
    ) -> share_acknowledge.ShareAcknowledgeRequest:
        assert self.is_open
        topics: dict[UUID, list[share_acknowledge.AcknowledgePartition]] = {}
        for (topic_id, index), batches in batches_by_place(some).items():
            rows = [
                share_acknowledge.AcknowledgementBatch(
                    first_offset=batch.first,
                    last_offset=batch.last,
                    acknowledge_types=batch.types,
                    reason=batch.reason,
                    release_delays_ms=list(batch.delays_ms),
                )
                for batch in batches
            ]
            row = share_acknowledge.AcknowledgePartition(partition_index=index, acknowledgement_batches=rows)
            topics.setdefault(topic_id, []).append(row)
        return share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            share_session_epoch=CLOSING if closes else self._epoch,
            is_renew_ack=any(one.renews for one in some),
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=one, partitions=rows) for one, rows in topics.items()],
        )

    def answered(self, code: ErrorCode) -> None:
        """An answer to the whole request. One that is refused for another reason than its session counts as well."""
        if code in NOT_OPEN:
            self.lost()
        else:
            self._epoch = self._epoch + 1 if self._epoch < MAX_EPOCH else 1

    def lost(self) -> None:
        """There was no answer, or the session is closed: the next request opens another one."""
        self._epoch = OPENING
        self._partitions = {}
