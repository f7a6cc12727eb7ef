"""A replicated store of keys and values on the consensus core that Penstock's own metadata stands on."""
