"""What can go wrong on the way to a cluster: errors whose text names the cause and, where there is one, the cure.

An error that the cluster itself answers with is a `KafkaError` (penstock.protocol.errors) and carries Kafka's code.
"""


class ClientError(Exception):
    """Any failure that is not the cluster's own answer."""


class ConnectionFailedError(ClientError):
    """No connection, or no longer: what was under way has an unknown outcome and may be tried again."""


class ClusterUnreachableError(ConnectionFailedError):
    """None of the addresses answered."""


class RequestTimedOutError(ConnectionFailedError):
    """The broker was reached but did not answer in time."""


class ProtocolViolationError(ConnectionFailedError):
    """The other side does not speak Kafka's protocol as it should: probably no Kafka broker, or a TLS listener."""


class UnsupportedByBrokerError(ClientError):
    """The broker does not serve this API in any version that this client knows."""


class ConsumerMisuseError(ClientError):
    """A consumer was used in a way that its contract forbids."""


class ProducerClosedError(ClientError):
    """A send after close(), or one that close() could not wait for."""


class DeliveryTimedOutError(ClientError):
    """A record could not be delivered within delivery.timeout.ms."""


class NoOffsetError(ClientError):
    """There is no committed offset, and auto.offset.reset is `none`."""


class BufferExhaustedError(ClientError):
    """The producer's buffer stayed full for max.block.ms."""
