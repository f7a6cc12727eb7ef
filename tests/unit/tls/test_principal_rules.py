"""How subjects become names of users: Kafka's rules, and what its own tests hold about them."""

import pytest

from penstock.tls.errors import TlsConfigError
from penstock.tls.principal_rules import parse_rules

FIRST = "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/"
SECOND = "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L"
THIRD = "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U"
FOURTH = "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U"
ALL = f"{FIRST}, {SECOND}, {THIRD}, {FOURTH}, DEFAULT"


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        ("DEFAULT", "CN=ada,O=x", "CN=ada,O=x"),
        (" DEFAULT ", "CN=ada", "CN=ada"),
        (ALL, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (ALL, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (ALL, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (ALL, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (ALL, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/", "CN=bob,X=1", "bob"),
        ("RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/,DEFAULT", "CN=bob", "bob"),
        (r"RULE:^CN=(a\/b)$/$1\/c/", "CN=a/b", "a/b/c"),
        ("RULE:^CN=(.*)$/$1@$2/", "CN=ada", "ada@$2"),
        ("RULE:^CN=(a)(b)(c)(d)(e)(f)(g)(h)(i)(j).*$/$12$10/", "CN=abcdefghijkl", "a2j"),
        (r"RULE:^CN=(?<who>.*)$/\$1$1/", "CN=ada", "$1ada"),
        (",DEFAULT", "CN=ada", "CN=ada"),
    ],
)
def test_the_first_rule_that_fits_names_the_user(rules: str, subject: str, name: str) -> None:
    assert parse_rules(rules).name_of(subject) == name


def test_where_no_rule_fits_there_is_no_user() -> None:
    for rules in ("RULE:^CN=(.*)$/$1/", ""):
        with pytest.raises(ValueError, match=r"no rule of ssl\.principal\.mapping\.rules fits .*OU=x"):
            parse_rules(rules).name_of("OU=x")


@pytest.mark.parametrize(
    "rules",
    ["default", "DEFAUL", "DEFAULT/L", "DEFAULT/U", "RULE:CN", "RULE:CN/$1", "RULE:/(/x", "RULE:(/$1/", "x,DEFAULT"],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(TlsConfigError, match=r"ssl\.principal\.mapping\.rules"):
        parse_rules(rules)
