"""Who may do what, decided from access rules as Kafka's StandardAuthorizer does.

| in this order                                         | verdict                          |
| ----------------------------------------------------- | -------------------------------- |
| a super user                                          | allowed                          |
| a rule that denies and matches                        | denied                           |
| a rule that allows and matches                        | allowed                          |
| no rule names the resource, for anybody               | `allow.everyone.if.no.acl.found` |
| else                                                  | denied                           |

A rule matches with its own principal or `User:*`, its host, network or `*`, and its operation or ALL. One that allows
READ, WRITE, DELETE or ALTER allows DESCRIBE as well, ALTER_CONFIGS allows DESCRIBE_CONFIGS; a denial implies nothing.

Rules lie by resource type, principal, pattern, name and host; what they say of one host is a mask. So a decision looks
at names that begin as the asked one does, and not at rules; one about any name, at what is allowed until something is
not denied again.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from typing import Final, TypeVar
from uuid import UUID

from penstock.metadata.acl_hosts import Network, address_of, host_key, network_text
from penstock.protocol.acls import (
    EVERY_USER,
    WILDCARD,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    Resource,
    members,
)

KeyT = TypeVar("KeyT")

_DENY_SHIFT: Final = 32
_IMPLIED_BY: Final = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_ALLOWS: Final[dict[Operation, int]] = {
    operation: sum(1 << each for each in (Operation.ALL, operation, *_IMPLIED_BY.get(operation, ())))
    for operation in Operation
    if operation is not Operation.ALL
}
_SAYS: Final[dict[Operation, int]] = {operation: 1 << Operation.ALL | 1 << operation for operation in _ALLOWS}
"""By an operation, the bits of rules about it: what allows, and what names it."""
HARDCODED: Final = "hardcode"
"""Kafka asks for the resource of this name before it looks for any of a kind."""

LOOK_UPS_A_STEP: Final = 500

SUPER_USER: Final = "SuperUser"
DEFAULT_ALLOW: Final = "DefaultAllow"
DEFAULT_DENY: Final = "DefaultDeny"
"""What decides where no rule does, in Kafka's words."""

Host = str | Network
Pattern = tuple[int, str]
"""Its type, and the name."""
_EVERYTHING: Final = PatternType.LITERAL, WILDCARD
Masks = dict[Host, int]
"""By the host of rules: a bit for each operation that is allowed, and one for each that is denied."""


@dataclass(slots=True)
class _Names:
    """The rules of one principal on one type of resource."""

    literal: defaultdict[str, Masks] = field(default_factory=lambda: defaultdict(dict))
    prefixed: defaultdict[str, Masks] = field(default_factory=lambda: defaultdict(dict))
    lengths: Counter[int] = field(default_factory=Counter)
    """How many prefixes have which length."""
    patterns: dict[tuple[int, int, Host], dict[Pattern, None]] = field(default_factory=dict)
    """By permission, operation and host, what rules say that for."""

    def at(self, pattern_type: int) -> defaultdict[str, Masks]:
        return self.prefixed if pattern_type == PatternType.PREFIXED else self.literal

    def matching(self, name: str) -> Iterator[tuple[PatternType, str, Masks]]:
        literal, prefixed = self.literal, self.prefixed
        if name in literal:
            yield PatternType.LITERAL, name, literal[name]
        if WILDCARD in literal and name != WILDCARD:
            yield PatternType.LITERAL, WILDCARD, literal[WILDCARD]
        for length in self.lengths:
            if (prefix := name[:length]) in prefixed and length <= len(name):
                yield PatternType.PREFIXED, prefix, prefixed[prefix]


class AccessRules:
    """The rules in force. `super_users` are principals, as `User:admin`."""

    def __init__(self, super_users: Collection[str] = (), *, allows_without_rules: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allows_without_rules = allows_without_rules
        self._rules: dict[UUID, AclBinding] = {}
        self._copies: Counter[tuple[AclBinding, Host]] = Counter()
        """How many more rules than one mean the same."""
        self._names: dict[tuple[int, str], _Names] = {}
        self._everybodys: dict[int, _Names] = {}
        """As above, of all principals together, with how many rules there are in place of masks."""
        self._lengths: dict[int, Counter[int]] = {4: Counter(), 6: Counter()}
        """By the version of IP, how long the networks are that rules name."""

    def replace(self, rules: Mapping[UUID, AclBinding]) -> None:
        """These are all; what is there already costs little."""
        for rule_id in self._rules.keys() - rules.keys():
            self.remove(rule_id)
        for rule_id, rule in rules.items():
            if self._rules.get(rule_id) != rule:
                self.add(rule_id, rule)

    def add(self, rule_id: UUID, rule: AclBinding) -> None:
        self.remove(rule_id)
        self._rules[rule_id] = rule
        rule, host = meant = _meant(rule)
        bit, of_principal = _bit_of(rule), self._names.setdefault((rule.resource_type, rule.principal), _Names())
        if of_principal.at(rule.pattern_type).get(rule.resource_name, {}).get(host, 0) & bit:
            self._copies[meant] += 1
            return
        if isinstance(host, tuple):
            self._lengths[host[0]][host[1]] += 1
        patterns = of_principal.patterns.setdefault((rule.permission_type, rule.operation, host), {})
        patterns[rule.pattern_type, rule.resource_name] = None
        masks = _put(of_principal, rule)
        masks[host] = masks.get(host, 0) | bit
        counts = _put(self._everybodys.setdefault(rule.resource_type, _Names()), rule)
        counts[WILDCARD] = counts.get(WILDCARD, 0) + 1

    def remove(self, rule_id: UUID) -> None:
        """Without effect for a rule that is not there."""
        gone = self._rules.pop(rule_id, None)
        if gone is None:
            return
        rule, host = meant = _meant(gone)
        if meant in self._copies:
            _drop(self._copies, meant)
            return
        owner = rule.resource_type, rule.principal
        if isinstance(host, tuple):
            _drop(self._lengths[host[0]], host[1])
        of_principal = self._names[owner]
        patterns = of_principal.patterns[about := (rule.permission_type, rule.operation, host)]
        del patterns[rule.pattern_type, rule.resource_name]
        if not patterns:
            del of_principal.patterns[about]
        masks = of_principal.at(rule.pattern_type)[rule.resource_name]
        masks[host] &= ~_bit_of(rule)
        if not masks[host]:
            del masks[host]
        _tidy(self._names, owner, rule)
        counts = self._everybodys[rule.resource_type].at(rule.pattern_type)[rule.resource_name]
        counts[WILDCARD] -= 1
        if not counts[WILDCARD]:
            del counts[WILDCARD]
        _tidy(self._everybodys, rule.resource_type, rule)

    def __len__(self) -> int:
        return len(self._rules)

    def is_super(self, principal: str) -> bool:
        return principal in self._super_users

    def allows(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> bool:
        if principal in self._super_users:
            return True
        hosts, said = self._hosts(host), 0
        for names in self._of(principal, resource):
            for _, _, masks in names.matching(name):
                said |= _said(masks, hosts)
        if said >> _DENY_SHIFT & _SAYS[operation]:
            return False
        if said & _ALLOWS[operation]:
            return True
        return self._allows_without_rules and not self._has_rules(resource, name)

    def reason(
        self, principal: str, host: str, operation: Operation, resource: Resource, name: str
    ) -> AclBinding | str:
        """What decides: a rule, or one of the words above. A rule's network is told without bits that do not matter."""
        if principal in self._super_users:
            return SUPER_USER
        allowing: AclBinding | None = None
        for rule in self._matching(principal, self._hosts(host), operation, resource, name):
            if rule.permission_type == Permission.DENY:
                return rule
            allowing = allowing or rule
        if allowing is not None:
            return allowing
        return DEFAULT_ALLOW if self._allows_without_rules and not self._has_rules(resource, name) else DEFAULT_DENY

    def _matching(
        self, principal: str, hosts: Sequence[Host], operation: Operation, resource: Resource, name: str
    ) -> Iterator[AclBinding]:
        """The rules that deny or allow, put together again from masks."""
        for owner in dict.fromkeys((principal, EVERY_USER)):
            names = self._names.get((resource, owner), _Names())
            for pattern, pattern_name, masks in names.matching(name):
                for host, mask in masks.items():
                    if host not in hosts:
                        continue
                    for permission, said in (
                        (Permission.DENY, mask >> _DENY_SHIFT & _SAYS[operation]),
                        (Permission.ALLOW, mask & _ALLOWS[operation]),
                    ):
                        text = network_text(host) if isinstance(host, tuple) else host
                        about = AclBinding(resource, pattern_name, pattern, owner, text, 0, permission)
                        yield from (about._replace(operation=each) for each in Operation if said >> each & 1)

    def allows_any(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """As `looking_for_any`, at once."""
        steps = self.looking_for_any(principal, host, operation, resource)
        try:
            while True:
                next(steps)
        except StopIteration as stop:
            return bool(stop.value)

    def looking_for_any(
        self, principal: str, host: str, operation: Operation, resource: Resource
    ) -> Generator[None, None, bool]:
        """Whether that may be done with any one resource of a type; nothing is implied here, as in Kafka.

        In steps: many may be allowed that are denied again. Rules may change between them: what is allowed all the
        while is found, and what is found is allowed when it is.
        """
        if self.allows(principal, host, operation, resource, HARDCODED):
            return True
        about = principal, host, operation, resource
        to_look_at = chain.from_iterable([list(each) for each in self._patterns(*about, Permission.ALLOW)])
        while True:
            allowed, denied = (self._patterns(*about, permission) for permission in (Permission.ALLOW, Permission.DENY))
            if any(_EVERYTHING in each for each in denied):
                return False
            lengths = set().union(*(names.lengths for names in self._of(principal, resource)))
            looked_up = 0
            for pattern in to_look_at:
                around = [] if pattern == _EVERYTHING else _around(pattern, lengths)
                for one in around:
                    looked_up += 1 + len(denied)
                    if any(one in each for each in denied):
                        break
                else:
                    if any(pattern in each for each in allowed):
                        return True
                if looked_up >= LOOK_UPS_A_STEP:
                    break
            else:
                return False
            yield None

    def _patterns(
        self, principal: str, host: str, operation: Operation, resource: Resource, permission: Permission
    ) -> list[dict[Pattern, None]]:
        """What rules say that for."""
        keys = [(permission, *each) for each in product((operation, Operation.ALL), self._hosts(host))]
        return [names.patterns[key] for names in self._of(principal, resource) for key in keys if key in names.patterns]

    def _of(self, principal: str, resource: Resource) -> Iterator[_Names]:
        for owner in dict.fromkeys((principal, EVERY_USER)):
            names = self._names.get((resource, owner))
            if names is not None:
                yield names

    def _hosts(self, host: str) -> Sequence[Host]:
        """All that rules may call a host: `*`, its address, the networks that it is in."""
        address = address_of(host)
        networks = (address.in_network(length) for length in self._lengths.get(address.version, ()))
        return WILDCARD, address.text, *networks

    def _has_rules(self, resource: Resource, name: str) -> bool:
        names = self._everybodys.get(resource)
        return names is not None and any(names.matching(name))


def _said(masks: Masks, hosts: Iterable[Host]) -> int:
    said = 0
    for host in hosts:
        said |= masks.get(host, 0)
    return said


def _around(pattern: Pattern, lengths: Iterable[int]) -> Iterator[Pattern]:
    """The patterns that stand for all of what this one stands for; the prefixes have one of these lengths."""
    pattern_type, name = pattern
    if pattern_type == PatternType.LITERAL:
        yield pattern
    for length in lengths:
        if length <= len(name):
            yield PatternType.PREFIXED, name[:length]


def _meant(rule: AclBinding) -> tuple[AclBinding, Host]:
    """Equal for rules that mean the same, however their hosts are written.

    What does not allow denies; a code that Kafka has no word for is no operation.
    """
    return AclBinding(
        rule.resource_type,
        rule.resource_name,
        PatternType.PREFIXED if rule.pattern_type == PatternType.PREFIXED else PatternType.LITERAL,
        rule.principal,
        "",
        rule.operation if rule.operation in members(Operation) else Operation.UNKNOWN,
        Permission.ALLOW if rule.permission_type == Permission.ALLOW else Permission.DENY,
    ), host_key(rule.host)


def _bit_of(rule: AclBinding) -> int:
    return 1 << rule.operation + (0 if rule.permission_type == Permission.ALLOW else _DENY_SHIFT)


def _put(names: _Names, rule: AclBinding) -> Masks:
    by_name = names.at(rule.pattern_type)
    if rule.pattern_type == PatternType.PREFIXED and rule.resource_name not in by_name:
        names.lengths[len(rule.resource_name)] += 1
    return by_name[rule.resource_name]


def _tidy(table: dict[KeyT, _Names], key: KeyT, rule: AclBinding) -> None:
    """Forget a name of which no rule speaks any more, so that nothing looks for it."""
    names = table[key]
    by_name = names.at(rule.pattern_type)
    if by_name[rule.resource_name]:
        return
    del by_name[rule.resource_name]
    if rule.pattern_type == PatternType.PREFIXED:
        _drop(names.lengths, len(rule.resource_name))
    if not names.literal and not names.prefixed:
        del table[key]


def _drop(counts: Counter[KeyT], key: KeyT) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
