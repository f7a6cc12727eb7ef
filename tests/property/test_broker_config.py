"""Whatever stands in a file, the answer is a configuration or an error that names its key; never anything else."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.effective import broker_entries, topic_entries

_ADDRESSES = st.text("PLAINTEXTSSL:/,@[]0.1239h-", max_size=25)
_NUMBERS = st.one_of(st.integers().map(str), st.floats().map(str))
_TEXTS = st.one_of(
    _ADDRESSES, _NUMBERS, st.text(max_size=8), st.sampled_from(["true", "PLAINTEXT", "broker", "a:1,b:2"])
)
_ADDRESS_KEYS = [
    key for key in BROKER_CONFIGS if "listener" in key or "quorum" in key or key in ("node.id", "log.dirs")
]
_KEYS = st.one_of(st.sampled_from(_ADDRESS_KEYS), st.sampled_from(list(BROKER_CONFIGS)), st.text(max_size=5))


MadeT = TypeVar("MadeT")


def config_or_error(make: Callable[[], MadeT]) -> MadeT | ConfigError:
    try:
        return make()
    except ConfigError as error:
        return error


@given(st.dictionaries(_KEYS, _TEXTS, max_size=4))
@example({"listeners": "PLAINTEXT://[::1]:9092"})
@example({"listeners": "PLAINTEXT://h:²"})
@example({"controller.quorum.voters": "1@:1"})
def test_any_text_is_a_configuration_or_a_config_error(settings: dict[str, str]) -> None:
    made = config_or_error(lambda: BrokerConfig.embedded(settings))
    if isinstance(made, ConfigError):
        assert made.key in BROKER_CONFIGS
        assert str(made).startswith(f"{made.key}: ")
        return
    list(made.warnings())
    assert len(list(broker_entries(made.layers))) == len(BROKER_CONFIGS)
    assert all(entry.value is not None for entry in topic_entries({}, made.layers))


@given(st.sampled_from(list(BROKER_CONFIGS)), _TEXTS)
@example("log.retention.ms", "soon")
def test_a_dynamic_value_is_taken_or_leaves_all_as_it_was(key: str, text: str) -> None:
    config = BrokerConfig.embedded()
    before = vars(config).copy()
    error = config_or_error(lambda: config.apply_dynamic(broker={key: text}, default={}))
    if BROKER_CONFIGS[key].read_only:
        assert error is None
        assert vars(config) == before
    elif isinstance(error, ConfigError):
        assert error.key == key
        assert vars(config) == before
    else:
        assert config.text(key) == text
