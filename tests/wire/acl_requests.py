"""Requests about access rules; a node without an authorizer refuses each."""

from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from penstock.protocol.messages.describe_acls import DescribeAclsRequest

TOPIC, ANY, READ, ALLOW = 2, 1, 3, 3

DESCRIBE = DescribeAclsRequest(resource_type_filter=TOPIC, resource_name_filter="t", operation=ANY, permission_type=ANY)
CREATE = CreateAclsRequest(
    creations=[
        AclCreation(
            resource_type=TOPIC,
            resource_name="t",
            principal="User:ada",
            host="*",
            operation=READ,
            permission_type=ALLOW,
        )
    ]
)
DELETE = DeleteAclsRequest(
    filters=[DeleteAclsFilter(resource_type_filter=TOPIC, resource_name_filter="t", operation=ANY, permission_type=ANY)]
)
