"""What the commands that measure say, without a cluster: figures, dates, settings for librdkafka."""

import time
from datetime import datetime
from typing import Any, cast

import click
import pytest
from tests.stand_in import stand_in

from penstock.cli.measuring import consumer_perf_test
from penstock.cli.measuring.consumer_perf_test import Counted, Report
from penstock.cli.measuring.dates import java_date
from penstock.cli.measuring.latencies import MEBIBYTE, Latencies, percentiles
from penstock.cli.measuring.librdkafka import LibrdkafkaSender, consumer_config, producer_config
from penstock.cli.measuring.verifiable_consumer import Reading
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.protocol.compression import Compression


def test_intervals_and_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    stats = Latencies(4, 1_000, 0.0)
    for number, latency_ms in enumerate((1.0, 2.0, 3.0, 10.0), start=1):
        stats.record(latency_ms, MEBIBYTE, number * 500.0)
    assert capsys.readouterr().out.splitlines() == [
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 1.5 ms avg latency, 2.0 ms max latency.",
        "2 records sent, 2.0 records/sec (2.00 MB/sec), 6.5 ms avg latency, 10.0 ms max latency.",
    ]
    assert stats.total_line(4_000.0) == (
        "4 records sent, 1.000000 records/sec (1.00 MB/sec), 4.00 ms avg latency, 10.00 ms max latency, "
        "3 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th."
    )


def test_silence_and_a_title(capsys: pytest.CaptureFixture[str]) -> None:
    stats = Latencies(1, 1, 0.0, " steady state")
    stats.is_silent = True
    stats.record(5.0, 10, 100.0)
    assert capsys.readouterr().out == ""
    assert stats.total_line(100.0).startswith("1 steady state records sent, 10.000000 records/sec")


def test_each_interval_of_reading_has_its_own_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter((0.0, 1.0, 3.0, 7.0))
    monkeypatch.setattr(consumer_perf_test, "time", stand_in(time, time=lambda: next(clock)))
    counted = Counted(Report(reporting_interval=1, show_detailed_stats=True, date_format="SSS"))
    counted.assigned([TopicPartition("t", 0)])  # after a second
    counted.add(10, 2 * MEBIBYTE)  # after two more
    counted.add(40, 8 * MEBIBYTE)  # after four
    assert capsys.readouterr().out.splitlines() == [
        "000, 0, 2.0000, 0.6667, 10, 3.3333, 1000, 2000, 1.0000, 5.0000",
        "000, 0, 10.0000, 2.0000, 50, 10.0000, 0, 4000, 2.0000, 10.0000",
    ]


def test_percentiles_are_samples() -> None:
    assert percentiles(list(range(1_000))) == [500, 950, 990, 999]
    assert percentiles([]) == [0, 0, 0, 0]


def test_dates_as_java_writes_them() -> None:
    moment = datetime(2026, 3, 7, 8, 9, 10, 45_678)
    assert java_date("yyyy-MM-dd HH:mm:ss:SSS", moment) == "2026-03-07 08:09:10:045"
    assert java_date("yy/M/d 'at' H'h'", moment) == "26/3/7 at 8h"
    assert java_date("SS", moment.replace(microsecond=345_000)) == "345"
    with pytest.raises(ValueError, match="'E' in 'EEE'"):
        java_date("EEE", moment)


def test_librdkafka_takes_what_it_is_given() -> None:
    producer = producer_config("a:1", ProducerSettings(compression_type=Compression.LZ4, buffer_memory=1 << 20, acks=1))
    assert (producer["compression.type"], producer["queue.buffering.max.kbytes"]) == ("lz4", 1024)
    assert (producer["acks"], producer["enable.idempotence"], producer["batch.size"]) == ("1", False, "16384")
    with pytest.raises(click.UsageError, match="measure with our own client"):
        producer_config("a:1", ProducerSettings(security_protocol="SSL"))
    consumer = consumer_config("a:1", ConsumerSettings(group_id="g"))
    assert consumer["partition.assignment.strategy"] == "range"
    assert consumer["fetch.wait.max.ms"] == "500"
    LibrdkafkaSender("a:1", ProducerSettings(), "t")


def test_a_verifiable_consumer_goes_on_behind_what_it_was_given() -> None:
    reading = Reading(cast("Any", None), -1, is_verbose=False, commits=True)
    records = [ConsumedRecord("t", partition, offset, 0, None, b"") for partition, offset in ((0, 4), (1, 9), (0, 6))]
    offsets = reading._told(records)
    assert {place: it.offset for place, it in offsets.items()} == {
        TopicPartition("t", 0): 7,
        TopicPartition("t", 1): 10,
    }
