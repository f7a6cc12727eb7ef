"""What tasks need of their workers, as configurations say it."""

import pytest

from penstock.work.connect.config import ConfigError, parse
from penstock.work.connect.distributed.settings import KEYS as OF_WORKERS
from penstock.work.connect.runtime.kinds import KEYS
from penstock.work.connect.runtime.needs import machines_memory_mb, megabytes, task_of
from penstock.work.plan import Task


def test_sizes() -> None:
    assert [megabytes(text) for text in ("512m", "2g", "1T")] == [512, 2048, 1 << 20]
    for text in ("2", "two", "2 gb", "-1g", ""):
        with pytest.raises(ValueError, match="is no size such as 512m or 2g"):
            megabytes(text)


def test_a_task_has_what_its_configuration_says() -> None:
    assert task_of("a", {"task.cores": "2", "task.memory": "1g"}) == Task("a", cores=2, memory_mb=1024)
    assert task_of("a", {}) == Task("a")


@pytest.mark.parametrize("wrong", [{"task.cores": "0"}, {"task.cores": "two"}, {"task.memory": "2"}])
def test_what_is_wrong_is_refused_with_the_connector(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as failure:
        parse(KEYS, {"name": "a", "connector.class": "b", **wrong})
    assert list(failure.value.errors) == list(wrong)


def test_a_worker_has_what_its_machine_has_or_less() -> None:
    assert (machines_memory_mb() or 100) > 64
    keys = [key for key in OF_WORKERS if key.name.startswith("worker.")]
    assert parse(keys, {"worker.cores": "4", "worker.memory": "8g"}) == {"worker.cores": 4, "worker.memory": "8g"}
