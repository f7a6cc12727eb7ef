"""One file per API, named after it. `MODULES` lists them all; what is not listed is not served."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "alter_configs",
    "api_versions",
    "delete_records",
    "describe_configs",
    "describe_producers",
    "incremental_alter_configs",
    "list_config_resources",
    "list_offsets",
    "offset_for_leader_epoch",
)
