"""Kafka Connect's REST interface of a worker: its paths, its shapes of JSON and its status codes."""
