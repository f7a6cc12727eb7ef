"""DescribeCompaction 0, an API of our own: how dirty compacted logs of this node are, and when it was their turn."""

from __future__ import annotations

from penstock.node.roles.broker import Broker
from penstock.node.serving.access import DESCRIBE_CLUSTER
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Whole
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.requests.api import OwnApiKey
from penstock.protocol.requests.own_apis import CompactedLog, DescribeCompactionRequest, DescribeCompactionResponse

LOGS_A_STEP = 50


@handles(OwnApiKey.DESCRIBE_COMPACTION, versions=(0, 0), rule=(Whole(DESCRIBE_CLUSTER),))
def describe_compaction(
    broker: Broker, context: RequestContext, request: DescribeCompactionRequest
) -> Steps[DescribeCompactionResponse]:
    logs: list[CompactedLog] = []
    known = [(partition.log, partition.high_watermark) for partition in broker.partitions]
    known += [(log, 0) for _, log in broker.partitions.untouched()]
    pace = Pace(LOGS_A_STEP)
    for log, high_watermark in known:
        if pace.is_due():
            yield None
        if broker.cleaner is not None and log.config.is_compacted:
            percent, cleaned_ms, problem = broker.cleaner.state(log, high_watermark)
            logs.append(
                CompactedLog(
                    topic=log.topic,
                    partition=log.partition,
                    dirty_percent=percent,
                    cleaned_ms=cleaned_ms,
                    problem=problem,
                )
            )
    return DescribeCompactionResponse(logs=logs)
