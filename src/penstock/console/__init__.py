"""A cluster in the browser: pages, what they ask for, and changes that they may make, over the wire."""
