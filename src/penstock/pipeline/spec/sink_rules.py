"""What a sink's `expect` says of its rows."""

from collections.abc import Mapping
from typing import Final

from penstock.pipeline.options.values import nearest
from penstock.pipeline.spec.notes import Notes
from penstock.pipeline.spec.pipeline import ON_FAIL, RuleSpec, SqlText
from penstock.pipeline.spec.places import Way

OF_A_RULE: Final = ("rule", "on_fail", "name")


def rules_of(notes: Notes, declared: object, way: Way) -> tuple[RuleSpec, ...]:
    """Of one rule, or of a list."""
    listed: list[tuple[object, Way]] = (
        [(item, (*way, number)) for number, item in enumerate(declared)]
        if isinstance(declared, list | tuple)
        else [(declared, way)]
    )
    rules = tuple(rule for item, at in listed if (rule := _rule(notes, item, at)) is not None)
    if len({rule.name for rule in rules}) < len(rules):
        notes.note("two rules have the same name.", *way)
    return rules


def _rule(notes: Notes, declared: object, way: Way) -> RuleSpec | None:
    options = notes.texts("a rule of expect", declared, way)
    for option in options:
        if option not in OF_A_RULE:
            hint = nearest(option.lower(), OF_A_RULE) or f" It has {', '.join(OF_A_RULE)}."
            notes.note(f"{option!r} is no part of a rule.{hint}", *way, option)
    on_fail = options.get("on_fail", ON_FAIL[0])
    if on_fail not in ON_FAIL:
        hint = nearest(on_fail.lower(), ON_FAIL)
        notes.note(f"on_fail: {on_fail} must be {' or '.join(ON_FAIL)}.{hint}", *way, "on_fail")
    rule = options.get("rule")
    if rule is None:
        if isinstance(declared, Mapping) and "rule" not in declared:
            notes.note("expect needs a rule, which is a condition of SQL, such as: amount > 0", *way)
        return None
    return RuleSpec(options.get("name", rule), SqlText(rule, notes.places.of_text((*way, "rule"))), on_fail)
