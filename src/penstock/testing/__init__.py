"""For users too: an embedded cluster and a pytest plugin."""
