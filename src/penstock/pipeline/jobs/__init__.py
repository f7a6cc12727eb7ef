"""Pipelines as jobs: a connector whose tasks are a pipeline's queries, each in a process of its own."""
