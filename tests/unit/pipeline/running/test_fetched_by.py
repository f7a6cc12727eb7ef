"""Where pipelines of a driver find what others have fetched."""

from penstock.pipeline.running.frames import fetched_by

ANN = {"kafka.bootstrap.servers": "a:1", "kafka.sasl.jaas.config": "ann", "kafka.security.protocol": "SASL_SSL"}


def test_what_is_read_does_not_matter_nor_how_options_are_written() -> None:
    place = fetched_by({**ANN, "subscribe": "one"}, "/fetches")
    assert place.startswith("/fetches/")
    assert fetched_by({**ANN, "subscribe": "two", "startingOffsets": "earliest"}, "/fetches") == place
    assert fetched_by({key.removeprefix("kafka."): value for key, value in ANN.items()}, "/fetches") == place


def test_who_asks_as_another_user_does_not_find_what_was_fetched() -> None:
    places = {
        fetched_by({**ANN, **more}, "/f") for more in ({}, {"kafka.sasl.jaas.config": "bob"}, {"ssl.keystore": "c"})
    }
    assert len(places) == 3
    assert "ann" not in "".join(places), "a path tells no password"
