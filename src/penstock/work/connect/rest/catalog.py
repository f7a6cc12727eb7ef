"""Which plugins there are, which keys each understands, and what is wrong with a configuration."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.work.connect.api import SinkConnector
from penstock.work.connect.built_in import CONNECTORS
from penstock.work.connect.chain import chain_of, named_keys
from penstock.work.connect.config import PASSWORD, ConfigError, ConfigKey, with_prefix
from penstock.work.connect.converters import converter_of
from penstock.work.connect.errors import KEYS as ERROR_KEYS
from penstock.work.connect.headers import header_converter_of
from penstock.work.connect.plugins import VERSION, PluginError, find_class, offered_by_packages, version_of
from penstock.work.connect.providers import Providers
from penstock.work.connect.rest.errors import bad_request, not_found
from penstock.work.connect.rest.secrets import without_secrets
from penstock.work.connect.runtime.kinds import (
    BUILT_IN,
    KEYS,
    SINK_KEYS,
    SOURCE_KEYS,
    Kind,
    contradictions,
    is_source,
    keys_beside_own,
    kind_of,
)
from penstock.work.connect.runtime.new_topics import GROUPS
from penstock.work.connect.runtime.secret_values import HIDDEN, discretion
from penstock.work.connect.runtime.settings import has_transactions, refused_offsets, refused_overrides
from penstock.work.connect.versions import fits

TYPES: Final[Mapping[str, str]] = {"transform": "transformation"}
Errors = dict[str, list[str]]


def plugins(*, connectors_only: bool) -> list[dict[str, str]]:
    """Built-in plugins and those of entry points; `module:Class` finds others as well."""
    found: list[dict[str, str]] = []
    for kind, built_in in BUILT_IN.items():
        if connectors_only and kind != "connector":
            continue
        for name, plugin in (*built_in.items(), *_offered(kind)):
            type_ = TYPES.get(kind, kind) if kind != "connector" else type_of(plugin)
            found.append({"class": name, "type": type_, "version": version_of(plugin)})
    return found


def type_of(kind: type[Any]) -> str:
    return "source" if is_source(kind) else "sink"


def plugin_named(name: str) -> tuple[str, type[Any]]:
    """Its kind and its class; RestError."""
    for kind, built_in in BUILT_IN.items():
        with suppress(PluginError):
            return kind, find_class(name, built_in, kind)
    raise not_found(f"there is no plugin {name}")


def definitions(name: str, version: str) -> list[dict[str, Any]]:
    """Of the plugin in a version that fits; RestError."""
    kind, plugin = plugin_named(name)
    try:
        is_installed = fits(version_of(plugin), version)
    except ValueError as error:
        raise bad_request(f"version: {error}") from None
    if not is_installed:
        raise not_found(f"plugin {name} is installed in version {version_of(plugin)}, and not in {version}")
    keys = keys_of(plugin) if kind == "connector" else getattr(plugin, "keys", ())
    return [_definition(key, _group(key), order) for order, key in enumerate(keys, start=1)]


def keys_of(kind: Kind) -> list[ConfigKey]:
    """The connector's own keys, then the common ones."""
    common = keys_beside_own(kind)
    own = {key.name: key for key in kind.config_keys}
    return [*own.values(), *(key for key in common if key.name not in own)]


def validated(
    config: Mapping[str, str | None],
    defaults: Mapping[str, str],
    settings: Mapping[str, Any],
    providers: Providers,
    plugin: str | None = None,
) -> dict[str, Any]:
    """What each key says and what is wrong with it, on a worker with these settings; RestError for an unknown one."""
    name = config.get("connector.class")
    if name is None:
        raise bad_request("the configuration has no connector.class")
    if plugin is not None and not _stem(name).endswith(_stem(plugin)):
        raise bad_request(f"connector.class is {name}, and this is about {plugin}")
    given = {key: value for key, value in config.items() if value is not None}
    try:
        kind = kind_of({"name": "?", "connector.class": name})
    except PluginError as error:
        raise bad_request(str(error)) from None
    try:
        found = providers.look_up(given)
        discreet = discretion(found)
        errors = {
            key: [discreet(reason) for reason in reasons]
            for key, reasons in _errors(kind, found.config, defaults, settings).items()
        }
    except ConfigError as error:
        errors = {key: list(reasons) for key, reasons in error.errors.items()}
    for key, value in config.items():
        if value is None:
            errors.setdefault(key, []).append(f"{key} is null, and must be a text")
    keys = [*((_group(key), key) for key in keys_of(kind)), *_named(given)]
    rows: list[dict[str, Any]] = [
        {"definition": _definition(key, group, order), "value": _value(key, config, errors.pop(key.name, []))}
        for order, (group, key) in enumerate(keys, start=1)
    ]
    shown = without_secrets(config)
    rows += [{"definition": None, "value": _shown(key, shown.get(key), reasons)} for key, reasons in errors.items()]
    count = sum(len(row["value"]["errors"]) for row in rows)
    groups = list(dict.fromkeys(group for group, _ in keys if group))
    return {"name": name, "error_count": count, "groups": groups, "configs": rows}


def _errors(kind: Kind, given: Mapping[str, str], defaults: Mapping[str, str], settings: Mapping[str, Any]) -> Errors:
    errors: Errors = refused_overrides(given, settings) | refused_offsets(given, settings)
    for key in keys_of(kind):
        try:
            key.parse(given.get(key.name))
        except ValueError as error:
            errors.setdefault(key.name, []).append(str(error))
    of_class = f"connector.{VERSION}"
    checks: list[tuple[str, Callable[[], object]]] = [
        (of_class, lambda: find_class(given["connector.class"], CONNECTORS, "connector", given.get(of_class))),
        ("transforms", lambda: chain_of(given)),
        ("key.converter", lambda: converter_of(given, defaults, "key.converter")),
        ("value.converter", lambda: converter_of(given, defaults, "value.converter")),
        ("header.converter", lambda: header_converter_of(given, defaults)),
        ("producer.override", lambda: with_properties(ProducerSettings(), with_prefix(given, "producer.override."))),
        ("admin.override", lambda: with_properties(ClientSettings(), with_prefix(given, "admin.override."))),
        ("consumer.override", lambda: with_properties(ConsumerSettings(), with_prefix(given, "consumer.override."))),
    ]
    for name, check in checks:
        try:
            check()
        except ConfigError as error:
            for wrong, reasons in error.errors.items():
                errors.setdefault(wrong, []).extend(reasons)
        except Exception as error:  # a plugin may raise anything
            errors.setdefault(name, []).append(str(error))
    for wrong, reasons in contradictions(kind, given, has_transactions=has_transactions(settings)).items():
        errors.setdefault(wrong, []).extend(reasons)
    if issubclass(kind, SinkConnector):
        readers = given.get("consumer.override.group.id", f"connect-{given.get('name', '')}")
        if readers == settings.get("group.id"):
            errors.setdefault("name", []).append(
                f"the sink would read as group {readers}, which is that of the workers"
            )
    return errors


def _named(given: Mapping[str, str]) -> list[tuple[str, ConfigKey]]:
    """None of a configuration whose names cannot be."""
    try:
        return named_keys(given)
    except ConfigError:
        return []


def _offered(kind: str) -> Iterator[tuple[str, type[Any]]]:
    for point in offered_by_packages(kind):
        try:
            yield point.name, point.load()
        except Exception:
            continue  # it cannot be loaded: a request that names it gets the reason


def _definition(key: ConfigKey, group: str | None, order: int) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type.upper(),
        "required": key.required,
        "default_value": _text(key.default),
        "importance": key.importance.upper(),
        "documentation": key.documentation,
        "group": group,
        "order": order if group else -1,
        "width": "MEDIUM" if group else "NONE",
        "display_name": key.name,
        "dependents": [],
    }


def _group(key: ConfigKey) -> str | None:
    """None for a key of the plugin's own, as in Connect."""
    if key in ERROR_KEYS:
        return "Error Handling"
    if key.name in ("transforms", "predicates"):
        return key.name.title()
    if key == GROUPS:
        return "Topic Creation"
    return "Common" if key in (*KEYS, *SINK_KEYS, *SOURCE_KEYS) else None


def _value(key: ConfigKey, config: Mapping[str, str | None], errors: Sequence[str]) -> dict[str, Any]:
    value = config.get(key.name)
    shown = _text(key.default) if key.name not in config else HIDDEN if key.type == PASSWORD else value
    return _shown(key.name, shown, errors, key.choices)


def _shown(name: str, value: str | None, errors: Sequence[str], choices: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "name": name,
        "value": value,
        "recommended_values": list(choices),
        "errors": list(errors),
        "visible": True,
    }


def _text(default: object) -> str | None:
    match default:
        case None:
            return None
        case bool():
            return str(default).lower()
        case tuple():
            return ",".join(map(str, default))
        case _:
            return str(default)


def _stem(name: str) -> str:
    return name.removesuffix("Connector") if len(name) > len("Connector") else name
