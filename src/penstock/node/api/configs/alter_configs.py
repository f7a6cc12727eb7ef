"""AlterConfigs, versions 0 to 2: sets all configs of resources at once; what is not named falls back to its default.

The controller decides; what only this broker can judge of its own configs, it refuses before that (`own`).
"""

from collections.abc import Sequence

from penstock.metadata.configs.effective import broker_text
from penstock.node.api.commands import handed_on
from penstock.node.api.configs.own import A_STEP, Change, is_of_one_broker, with_own_answers
from penstock.node.roles.broker import Broker
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.parts import has_any
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


def alter_configs(broker: Broker, context: RequestContext, request: AlterConfigsRequest) -> Steps[AlterConfigsResponse]:
    if (yield from has_any(request.resources, is_of_one_broker)):
        own, answer_class = AlterConfigsResponse(), AlterConfigsResourceResponse
        return (yield from with_own_answers(broker, context, request, own, answer_class, _changes))
    response: AlterConfigsResponse = yield handed_on(broker, context, request, AlterConfigsResponse)
    return response


def _changes(broker: Broker, configs: Sequence[AlterableConfig]) -> Steps[list[Change]]:
    (_, set_here), *others = broker.config.layers
    changes, kept, pace = [], set[str](), Pace(A_STEP)
    for config in configs:
        if pace.is_due():
            yield None
        changes.append(Change(config.name, config.value or "", config.value))
        kept.add(config.name)
    changes += [Change(name, "", broker_text(others, name)) for name in set_here if name not in kept]
    return changes
