"""`penstock metadata-shell`: the metadata as a tree of files."""
