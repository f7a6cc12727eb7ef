import pytest

from penstock.work.connect.built_in.file_sink import FileStreamSinkConnector
from penstock.work.connect.config import ConfigError
from penstock.work.connect.plugins import PluginError
from penstock.work.connect.runtime.kinds import checked, checked_task_configs, contradictions, is_source, kind_of

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


LEFT_OUT = "errors.deadletterqueue.topic.name"
EITHER = {key: ["a sink needs either topics or topics.regex"] for key in ("topics", "topics.regex")}


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({}, EITHER),
        ({"topics": " , "}, EITHER),
        ({"topics": "a", "topics.regex": "a"}, EITHER),
        ({"topics": "a"}, {}),
        ({"topics.regex": "a.*"}, {}),
        ({"topics": "a", LEFT_OUT: "b"}, {}),
        (
            {"topics": "a, b", LEFT_OUT: " b "},
            {"topics": [f"{LEFT_OUT}=b is one of topics: what is left out would come again"]},
        ),
        (
            {"topics.regex": "a.*", LEFT_OUT: "ab"},
            {"topics.regex": [f"{LEFT_OUT}=ab matches topics.regex: it would come again"]},
        ),
        ({"topics.regex": "a.*", LEFT_OUT: "ba"}, {}),
        ({"topics.regex": "a.*", LEFT_OUT: ""}, {}),
        ({"topics.regex": ".*", LEFT_OUT: " "}, {}),
    ],
)
def test_which_topics_a_sink_has(config: dict[str, str], wrong: dict[str, list[str]]) -> None:
    assert contradictions(FileStreamSinkConnector, config, has_transactions=False) == wrong


@pytest.mark.parametrize("name", ["", " ", "a\x00", "a\nb", "\x7f", "\x9f"])
def test_a_name_is_one(name: str) -> None:
    with pytest.raises(ConfigError, match="a name is not empty, and has no control characters"):
        checked(SOURCE | {"name": name})
    checked(SOURCE | {"name": "a b/ü"})


@pytest.mark.parametrize("made", [None, "ab", {"a": "b"}, [{"a": "b"}, "c"], iter(())])
def test_configurations_of_tasks_are_dicts_in_a_list(made: object) -> None:
    with pytest.raises(ConfigError) as raised:
        checked_task_configs(made, SOURCE | {"tasks.max": "9"})
    assert list(raised.value.errors) == ["name"]
    assert str(raised.value) == f"lines gave {made!r} as the configurations of its tasks: a list of dicts is needed"


def test_configurations_of_tasks_are_texts() -> None:
    for made in ([{1: 2}, {"a": None}], ({1: 2}, {"a": None})):
        assert checked_task_configs(made, SOURCE | {"tasks.max": "2"}) == [{"1": "2"}, {"a": "None"}]
    assert checked_task_configs([], SOURCE) == []


def test_what_is_no_connector() -> None:
    for kind in ("json:JSONDecoder", "builtins:dict"):
        with pytest.raises(PluginError, match="is neither a SourceConnector nor a SinkConnector"):
            kind_of({"name": "c", "connector.class": kind})
    assert [is_source(kind_of({"name": "c", "connector.class": f"FileStream{one}"})) for one in ("Source", "Sink")] == [
        True, False,
    ]  # fmt: skip
