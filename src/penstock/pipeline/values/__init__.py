"""Values of a schema: JSON Schema, Avro and Protobuf become columns."""
