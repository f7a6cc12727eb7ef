"""Files that name partitions, as Kafka's tools read and write them."""

from pathlib import Path

import click
import pytest

from penstock.cli.replicas.partition_files import assignment_text, directories_in, partitions_in, replicas_in
from penstock.client.values import TopicPartition


def written(directory: Path, text: str) -> Path:
    file = directory / "partitions.json"
    file.write_text(text)
    return file


def test_what_is_printed_can_be_read(tmp_path: Path) -> None:
    replicas = {TopicPartition("b", 0): [3], TopicPartition("a", 1): [1, 2]}
    text = assignment_text(replicas)
    assert text == (
        '{"version":1,"partitions":[{"topic":"a","partition":1,"replicas":[1,2],"log_dirs":["any","any"]},'
        '{"topic":"b","partition":0,"replicas":[3],"log_dirs":["any"]}]}'
    )
    assert replicas_in(written(tmp_path, text)) == replicas


def test_a_plan_may_be_one_that_moves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, assignment_text({}))
    assert replicas_in(path, may_be_empty=True) == {}
    with pytest.raises(click.ClickException, match='there are no "partitions"'):
        replicas_in(path)


def test_partitions_alone(tmp_path: Path) -> None:
    file = written(tmp_path, '{"partitions": [{"topic": "t", "partition": 2}]}')
    assert partitions_in(file) == [TopicPartition("t", 2)]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Expecting"),
        ("[]", 'no "partitions"'),
        ('{"partitions": []}', 'no "partitions"'),
        ('{"version": 2, "partitions": [{"topic": "t", "partition": 0}]}', "version 2"),
        ('{"partitions": [{"topic": "t"}]}', "number of a partition"),
        ('{"partitions": [{"topic": "t", "partition": true}]}', "number of a partition"),
        ('{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 0}]}', "t-0 comes twice"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "the replicas of t-0"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "a node twice"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_file(tmp_path: Path, text: str, says: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(click.ClickException) as refused:
        replicas_in(file)
    assert str(file) in refused.value.message
    assert says in refused.value.message


def test_directories_for_replicas(tmp_path: Path) -> None:
    file = tmp_path / "moves.json"
    row = '{"topic": "t", "partition": 0, "replicas": [1, 2], "log_dirs": %s}'
    file.write_text('{"partitions": [' + row % '["any", "/b"]' + "]}")
    assert directories_in(file) == {(TopicPartition("t", 0), 2): "/b"}
    file.write_text('{"partitions": [' + row % '["/b"]' + "]}")
    with pytest.raises(click.ClickException, match="log_dirs of t-0: one is needed for each replica"):
        directories_in(file)
