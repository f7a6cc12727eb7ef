"""The messages of DescribeSharePartitions, an API of our own: how a share group comes along."""

from penstock.protocol.schema import Message, array, field


class SharePartitionAt(Message, versions="0-0", flexible="0+"):
    """Where a share group begins there, as its coordinator says; -1 where it has not begun."""

    partition: int = field("int32", "0+", default=-1)
    start_offset: int = field("int64", "0+", default=-1)


class ShareTopicAt(Message, versions="0-0", flexible="0+"):
    topic_name: str = field("string", "0+", default="")
    partitions: list[SharePartitionAt] = array(SharePartitionAt, "0+", default_factory=list)


class DescribeSharePartitionsRequest(Message, versions="0-0", flexible="0+"):
    """How a share group comes along; each broker answers for the partitions that it leads."""

    group_id: str = field("string", "0+", default="")
    topics: list[ShareTopicAt] = array(ShareTopicAt, "0+", default_factory=list)


class DescribedSharePartition(Message, versions="0-0", flexible="0+"):
    """`oldest_ms` is the timestamp of the first record that the group has not finished with, -1 if there is none. The
    others are known where a member fetches of it (`is_read`): records that are not finished, that members have, that
    wait until they may be given away; deliveries a second, lately; and for how long deliveries pause yet, as too many
    records became dead letters: 0 while a few are tried, -1 where they do not pause.
    """

    partition: int = field("int32", "0+", default=-1)
    is_read: bool = field("bool", "0+", default=False)
    backlog: int = field("int64", "0+", default=-1)
    oldest_ms: int = field("int64", "0+", default=-1)
    in_flight: int = field("int32", "0+", default=0)
    held: int = field("int32", "0+", default=0)
    deliveries_per_second: float = field("float64", "0+", default=0.0)
    redeliveries_per_second: float = field("float64", "0+", default=0.0)
    pause_ms: int = field("int64", "0+", default=-1)


class DescribedShareTopic(Message, versions="0-0", flexible="0+"):
    """With the partitions that the broker leads. UNKNOWN_TOPIC_OR_PARTITION for a topic that it has not heard of."""

    topic_name: str = field("string", "0+", default="")
    error_code: int = field("int16", "0+", default=0)
    partitions: list[DescribedSharePartition] = array(DescribedSharePartition, "0+", default_factory=list)


class DescribeSharePartitionsResponse(Message, versions="0-0", flexible="0+"):
    """`now_ms` is the clock of the broker."""

    error_code: int = field("int16", "0+", default=0)
    now_ms: int = field("int64", "0+", default=-1)
    topics: list[DescribedShareTopic] = array(DescribedShareTopic, "0+", default_factory=list)
