"""One command, `penstock`, with subcommands."""
