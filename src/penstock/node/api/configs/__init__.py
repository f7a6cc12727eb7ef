"""Changes of configs: a row and a file for each of the two APIs, and what a broker looks at for both.

The files are loaded when the first request comes.
"""

from typing import Final

from penstock.metadata.resources import ResourceType
from penstock.node.api.commands import CONFIGS
from penstock.node.serving.access import ALTER_CLUSTER_CONFIGS
from penstock.node.serving.handler import Handler, later
from penstock.node.serving.rules import Each
from penstock.protocol.acls import CLUSTER_NAME
from penstock.protocol.requests.api import ApiKey

LOGGERS: Final = Each(
    lambda _, resource: ALTER_CLUSTER_CONFIGS if resource.resource_type == ResourceType.BROKER_LOGGER else None,
    ("resources",),
    "responses",
    lambda *_: CLUSTER_NAME,
    words=f"{ALTER_CLUSTER_CONFIGS} for loggers; the controller asks for the rest",
)
_HERE: Final = f"{__name__}."

HANDLERS: Final[dict[int, Handler]] = {
    int(ApiKey.ALTER_CONFIGS): Handler(
        int(ApiKey.ALTER_CONFIGS),
        0,
        2,
        later(f"{_HERE}alter_configs"),
        CONFIGS,
        hands_on=True,
        asks_controller=True,
    ),
    int(ApiKey.INCREMENTAL_ALTER_CONFIGS): Handler(
        int(ApiKey.INCREMENTAL_ALTER_CONFIGS),
        0,
        1,
        later(f"{_HERE}incremental_alter_configs"),
        (LOGGERS,),
        asks_controller=True,
    ),
}
