"""`penstock consume --share`: records of a topic as a member of a share group, with the options of
kafka-console-share-consumer.sh.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import option
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import ShareConsumer
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.values import ConsumedRecord
from penstock.protocol.value import Value

DEFAULT_GROUP: Final = "console-share-consumer"
SETTINGS: Final = ShareConsumerSettings(
    client_id="console-share-consumer", group_id=DEFAULT_GROUP, share_acknowledgement_mode="explicit"
)


class Sharing(Value, kw_only=True):
    share: bool = option("Take records as a member of a share group, by default of console-share-consumer.")
    accept: bool = option("With --share: accept what was printed (the default).")
    release: bool = option("With --share: release it, for another delivery.")
    reject: bool = option("With --share: reject it for good.")

    reject_message_on_error: bool = option("With --share: reject what cannot be shown, and go on.")

    def check(self) -> None:
        """UsageError."""
        chosen = [name for name in ("accept", "release", "reject") if getattr(self, name)]
        if len(chosen) > 1:
            raise click.UsageError("give one of --accept, --release, --reject")
        if (chosen or self.reject_message_on_error) and not self.share:
            raise click.UsageError("--accept, --release, --reject and --reject-message-on-error need --share")

    @property
    def kind(self) -> AcknowledgeType:
        """What becomes of a record that was shown."""
        if self.release:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if self.reject else AcknowledgeType.ACCEPT


async def take_shared(
    servers: str,
    settings: ShareConsumerSettings,
    topic: str,
    show: Callable[[ConsumedRecord], None],
    sharing: Sharing,
    *,
    max_messages: int | None,
    timeout_ms: int | None,
    poll_ms: int,
) -> None:
    """Until so many were shown, or none has come for so long. What was got and not shown is released."""
    loop = asyncio.get_running_loop()
    last_at, count = loop.time(), 0
    async with ShareConsumer(servers, settings) as consumer:
        await consumer.subscribe([topic])
        while max_messages is None or count < max_messages:
            records = await consumer.poll(poll_ms if timeout_ms is None else min(poll_ms, timeout_ms))
            left = None if max_messages is None else max_messages - count
            for record in records[:left]:
                consumer.acknowledge(record, _shown(record, show, sharing))
                count += 1
            if records:
                last_at = loop.time()
            elif timeout_ms is not None and (loop.time() - last_at) * 1000 >= timeout_ms:
                return


def _shown(record: ConsumedRecord, show: Callable[[ConsumedRecord], None], sharing: Sharing) -> AcknowledgeType:
    """How to acknowledge it."""
    try:
        show(record)
    except ValueError as error:
        if not sharing.reject_message_on_error:
            raise
        say(f"{record.topic_partition} at offset {record.offset} is rejected: {error}", err=True)
        return AcknowledgeType.REJECT
    return sharing.kind
