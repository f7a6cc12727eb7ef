"""Connectors that come with Penstock."""

from collections.abc import Mapping
from typing import Final

from penstock.work.connect.api import Connector
from penstock.work.connect.built_in.file_sink import FileStreamSinkConnector
from penstock.work.connect.built_in.file_source import FileStreamSourceConnector
from penstock.work.connect.built_in.function import FunctionConnector

CONNECTORS: Final[Mapping[str, type[Connector]]] = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": FileStreamSourceConnector,
    "org.apache.kafka.connect.file.FileStreamSinkConnector": FileStreamSinkConnector,
    "penstock.FunctionConnector": FunctionConnector,
}
