"""A secured cluster is made: all of its files at once, or none."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Final

from penstock.log.disk import Disk
from penstock.testing.layout import format_as_one_cluster, replica_settings, voters_settings
from penstock.testing.secured.authorities import AuthorityError
from penstock.testing.secured.folder import SecuredFolder
from penstock.testing.secured.places import CLIENTS, CONTROLLER, Place
from penstock.testing.secured.settings import of_all_nodes, principal_name
from penstock.testing.secured.users import drawn_passwords, first_records

UNFINISHED: Final = ".unfinished"


def make_secured(
    path: Path,
    places: Sequence[Place],
    users: Sequence[str],
    *,
    now: dt.datetime,
    installed_in: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> str:
    """Returns the cluster's id. `installed_in` is where each host will have its node's folder; without it, here.

    `settings` are for all nodes, besides. What is not empty is not written to. A failure, or a process that is killed,
    leaves nothing of that name behind. Raises AuthorityError, OSError.
    """
    path = path.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise AuthorityError(f"{path} is there already, and nothing in it is replaced: give another place")
    beside = path.with_name(f".{path.name}{UNFINISHED}")
    if beside.exists():  # it was killed
        shutil.rmtree(beside)
    try:
        cluster_id = _make(SecuredFolder(beside, now), path, places, users, installed_in, settings or {})
        os.replace(beside, path)
        Disk().sync_directory(str(path.parent))
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    return cluster_id


def _make(
    folder: SecuredFolder,
    path: Path,
    places: Sequence[Place],
    users: Sequence[str],
    installed_in: Path | None,
    settings: Mapping[str, str],
) -> str:
    Disk().make_directory(str(folder.path), parents=True)
    folder.authorities.add()
    controllers = {one.node_id: one.address(CONTROLLER) for one in places}
    common = (
        of_all_nodes([one.node_id for one in places])
        | voters_settings(controllers, dynamic=True)
        | replica_settings(len(places))
        | dict(settings)
    )
    for place in places:
        at = installed_in or path / "nodes" / principal_name(place.node_id)
        folder.add_node(place, at, common)
    passwords, servers = drawn_passwords(users), ",".join(one.address(CLIENTS) for one in places)
    for user, password in passwords.items():
        folder.add_client(user, password, servers, path / "clients" / user)
    data = {one.node_id: node / "data" for one, node in zip(places, folder.nodes, strict=True)}
    return format_as_one_cluster(data, controllers, first_records(passwords, SystemRandom()))
