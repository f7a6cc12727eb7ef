"""What the pages show, as JSON: a function for each path, which takes the watched cluster and the query."""
