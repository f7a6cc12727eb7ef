"""How soon a broker that has just been started takes a record: a topic is created and a record produced, by hand."""

import time

from bench.wire import PRODUCE_VERSION, Wire, one_record, produce_request
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

CREATE_VERSION = 5
LIMIT_S = 60.0


def first_record_at(address: str, topic: str = "first", limit_s: float = LIMIT_S) -> float:
    """The moment (perf_counter) at which the first record is acknowledged; what fails is tried again."""
    create = CreateTopicsRequest(topics=[CreatableTopic(name=topic, num_partitions=1, replication_factor=1)])
    produce = produce_request(topic, one_record(b"x" * 100))
    until = time.perf_counter() + limit_s
    while time.perf_counter() < until:
        try:
            with Wire(address, 10) as wire:
                code = wire.ask(create, CREATE_VERSION).topics[0].error_code
                while code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS) and time.perf_counter() < until:
                    answer = wire.ask(produce, PRODUCE_VERSION).responses[0].partition_responses[0]
                    if answer.error_code == ErrorCode.NONE:
                        return time.perf_counter()
                    time.sleep(0.002)
        except OSError:
            pass
        time.sleep(0.005)
    raise RuntimeError(f"no record was taken within {limit_s:g} s")
