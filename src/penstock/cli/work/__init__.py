"""Commands about workers, and about the connectors and pipelines that they run."""
