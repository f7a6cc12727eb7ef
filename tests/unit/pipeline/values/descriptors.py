"""Types of Protobuf as protoc would write them, without protoc."""

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet
from google.protobuf.json_format import ParseDict

FIELD = FieldDescriptorProto
OPTIONAL, REPEATED = FIELD.LABEL_OPTIONAL, FIELD.LABEL_REPEATED


def field(name: str, number: int, kind: int, type_name: str = "", **more: object) -> FieldDescriptorProto:
    return FIELD(name=name, number=number, type=kind, type_name=type_name or None, **({"label": OPTIONAL} | more))


def orders_file() -> FileDescriptorProto:
    """orders.proto: an order with a bit of everything, and below it another message."""
    order = DescriptorProto(
        name="Order",
        field=[
            field("id", 1, FIELD.TYPE_INT64),
            field("amount", 2, FIELD.TYPE_DOUBLE),
            field("note", 3, FIELD.TYPE_STRING, proto3_optional=True, oneof_index=0),
            field("at", 4, FIELD.TYPE_MESSAGE, ".google.protobuf.Timestamp"),
            field("state", 5, FIELD.TYPE_ENUM, ".shop.State"),
            field("lines", 6, FIELD.TYPE_MESSAGE, ".shop.Line", label=REPEATED),
            field("counts", 7, FIELD.TYPE_MESSAGE, ".shop.Order.CountsEntry", label=REPEATED),
            field("big", 8, FIELD.TYPE_UINT64),
            field("tip", 9, FIELD.TYPE_MESSAGE, ".google.protobuf.Int32Value"),
        ],
    )
    order.oneof_decl.add(name="_note")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.extend([field("key", 1, FIELD.TYPE_STRING), field("value", 2, FIELD.TYPE_INT32)])
    line = DescriptorProto(name="Line", field=[field("article", 1, FIELD.TYPE_STRING)])
    node = DescriptorProto(name="Node", field=[field("next", 1, FIELD.TYPE_MESSAGE, ".shop.Node")])
    file = FileDescriptorProto(name="orders.proto", package="shop", syntax="proto3", message_type=[order, line, node])
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    ParseDict({"name": "State", "value": [{"name": "OPEN", "number": 0}, {"name": "PAID", "number": 1}]},
              file.enum_type.add())  # fmt: skip
    return file


def events_file() -> FileDescriptorProto:
    """events.proto: well-known types, a oneof, and maps of enums and messages."""
    names = ("Duration", "Struct", "Value", "Any", "Empty", "FieldMask")
    event = DescriptorProto(
        name="Event",
        field=[
            *(
                field(name.lower(), number, FIELD.TYPE_MESSAGE, f".google.protobuf.{name}")
                for number, name in enumerate(names, 1)
            ),
            field("number", 11, FIELD.TYPE_INT32, oneof_index=0),
            field("text", 12, FIELD.TYPE_STRING, oneof_index=0),
            field("line", 13, FIELD.TYPE_MESSAGE, ".shop.Line", oneof_index=0),
            field("nothing", 14, FIELD.TYPE_MESSAGE, ".shop.Nothing", oneof_index=0),
            field("states", 15, FIELD.TYPE_MESSAGE, ".shop.Event.StatesEntry", label=REPEATED),
            field("by_name", 16, FIELD.TYPE_MESSAGE, ".shop.Event.ByNameEntry", label=REPEATED),
        ],
    )
    event.oneof_decl.add(name="what")
    for entry, kind, type_name in (
        ("StatesEntry", FIELD.TYPE_ENUM, ".shop.State"),
        ("ByNameEntry", FIELD.TYPE_MESSAGE, ".shop.Line"),
    ):
        nested = event.nested_type.add(name=entry)
        nested.options.map_entry = True
        nested.field.extend([field("key", 1, FIELD.TYPE_STRING), field("value", 2, kind, type_name)])
    nothing = DescriptorProto(name="Nothing", field=[field("e", 1, FIELD.TYPE_MESSAGE, ".google.protobuf.Empty")])
    file = FileDescriptorProto(name="events.proto", package="shop", syntax="proto3", message_type=[event, nothing])
    imported = ("duration", "struct", "any", "empty", "field_mask")
    file.dependency.extend(["orders.proto", *(f"google/protobuf/{name}.proto" for name in imported)])
    return file


def orders_set() -> bytes:
    made: bytes = FileDescriptorSet(file=[orders_file()]).SerializeToString()
    return made
