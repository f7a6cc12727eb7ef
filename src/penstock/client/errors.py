"""What can go wrong on the way to a cluster: errors whose text names the cause and, where there is one, the cure.

An error that the cluster itself answers with is a `KafkaError` (penstock.protocol.errors) and carries Kafka's code.
"""

import os
from typing import Final

from penstock.protocol.errors import ErrorCode, KafkaError

UNANSWERED: Final = "cannot reach"


class ClientError(Exception):
    """Any failure that is not the cluster's own answer."""


class UnusableSettingsError(ClientError):
    """A setting that no connection can be made with: a file of keys that is not there, or has another password."""


class ConnectionFailedError(ClientError):
    """No connection, or no longer: what was under way has an unknown outcome and may be tried again."""


class ClusterUnreachableError(ConnectionFailedError):
    """None of the addresses answered."""


class RequestTimedOutError(ConnectionFailedError):
    """The broker was reached but did not answer in time."""


class WrongNodeError(ConnectionFailedError):
    """Another node than the one that was looked for listens at its address: what is known of the cluster is old."""


class ProtocolViolationError(ConnectionFailedError):
    """The other side does not speak Kafka's protocol as it should: probably no Kafka broker, or a TLS listener."""


class AnswerTooLargeError(ProtocolViolationError):
    """An answer is longer than this client takes; asking again would change nothing."""


class AuthenticationFailedError(ClientError):
    """The log-in failed: wrong user or password, a mechanism that is not enabled, or nobody logs in there."""


class UnsupportedByBrokerError(ClientError):
    """The broker does not serve this API in any version that this client knows."""


class ConsumerMisuseError(ClientError):
    """A consumer was used in a way that its contract forbids."""


class PositionsTakenError(ClientError):
    """Another member has taken the partition over, so that a position may not be stored with its results."""


class TopicReplacedError(ClientError):
    """Stored positions are those of a topic that was deleted; another one has its name now."""


class ClientClosedError(ClientError):
    """What was asked for needs a connection, and this client is closed: it opens no others."""


class ProducerClosedError(ClientError):
    """A send after close(), or one that close() could not wait for."""


class ProducerFencedError(ClientError):
    """Another producer has the transactional id, or the coordinator has aborted what took too long."""


class TransactionFailedError(ClientError):
    """Something in a transaction has failed, so that it can only be aborted; or it was, and the record with it."""


class TransactionStateError(ClientError):
    """What was asked for needs an open transaction, or none."""


class DeliveryTimedOutError(ClientError):
    """A record could not be delivered within delivery.timeout.ms."""


class NoOffsetError(ClientError):
    """There is no committed offset, and auto.offset.reset is `none`."""


class BufferExhaustedError(ClientError):
    """The producer's buffer stayed full for max.block.ms."""


def raise_for(number: int, *about: str | None) -> None:
    """The KafkaError of an answer, if it has one, with the first of these texts that is not empty."""
    if number:
        raise KafkaError(ErrorCode(number), next(filter(None, about), None))


def reason(error: BaseException) -> str:
    """An operating system's error as a short phrase."""
    if isinstance(error, ConnectionRefusedError) or (not _number(error) and "Connect call failed" in str(error)):
        return "connection refused"
    text = os.strerror(_number(error)) if _number(error) > 0 else getattr(error, "strerror", None) or str(error)
    return text[:1].lower() + text[1:] if text else type(error).__name__


def _number(error: BaseException) -> int:
    return error.errno or 0 if isinstance(error, OSError) else 0


def unreachable(address: object, error: OSError, limit_ms: int) -> ClusterUnreachableError:
    """A time-out of ours is told with its length; it has no number, as the system's own have."""
    is_ours = isinstance(error, TimeoutError) and not error.errno
    why = f"no answer within {limit_ms} ms" if is_ours else reason(error)
    return ClusterUnreachableError(f"{UNANSWERED} {address} ({why})")
