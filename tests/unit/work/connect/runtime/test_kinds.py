import pytest

from penstock.work.connect.config import ConfigError
from penstock.work.connect.runtime.kinds import checked, checked_task_configs

SOURCE = {"name": "lines", "connector.class": "FileStreamSource", "file": "f", "topic": "t"}


@pytest.mark.parametrize(
    "promise",
    [
        {"exactly.once.support": "required"},
        {"transaction.boundary": "interval"},
        {"transaction.boundary": "connector"},
        {"exactly.once.support": "perhaps"},
    ],
)
def test_a_promise_that_is_not_kept_is_refused(promise: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as raised:
        checked(SOURCE | promise)
    assert raised.value.errors.keys() == promise.keys()


def test_what_promises_nothing_is_taken() -> None:
    checked(SOURCE | {"exactly.once.support": "requested", "transaction.boundary": "poll"})


def test_more_tasks_than_allowed_run_only_where_that_is_not_enforced(caplog: pytest.LogCaptureFixture) -> None:
    made = [{"part": "1"}, {"part": "2"}]
    with pytest.raises(ConfigError, match=r"wants 2 tasks, and tasks\.max allows 1"):
        checked_task_configs(made, SOURCE)
    assert checked_task_configs(made, SOURCE | {"tasks.max.enforce": "false"}) == made
    assert "all of them run" in caplog.text
