"""One file per API, named after it. `MODULES` lists them all; what is not listed is not served."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "api_versions",
    "delete_records",
    "describe_producers",
    "list_offsets",
    "offset_for_leader_epoch",
)
