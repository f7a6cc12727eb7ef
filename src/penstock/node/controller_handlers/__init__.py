"""What the controller listeners serve: one file per API, as in `penstock.node.handlers`; `MODULES` lists them all."""

MODULES: tuple[str, ...] = (
    # in alphabetical order, one per line
    "api_versions",
)
