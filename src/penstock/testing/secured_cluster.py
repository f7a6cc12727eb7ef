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
from penstock.protocol.secret import Secret
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
    only_keys: bool = False,
) -> str:
    """Returns the cluster's id. `installed_in` is where each host will have its node's folder; without it, here.

    With `only_keys` the nodes are there already: they get no storage, and there is no id. What is not empty is not
    written to. A failure, or a process that is killed, leaves nothing of that name behind. Raises AuthorityError,
    OSError.
    """
    path = path.absolute()
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise AuthorityError(f"{path} is there already, and nothing in it is replaced: give another place")
    beside = path.with_name(f".{path.name}{UNFINISHED}")
    if beside.exists():  # it was killed
        shutil.rmtree(beside)
    try:
        folder = SecuredFolder(beside, now)
        passwords = _make(folder, path, places, users, installed_in)
        cluster_id = "" if only_keys else _format(folder, places, passwords)
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
) -> Mapping[str, Secret]:
    """Returns the users' passwords."""
    Disk().make_directory(str(folder.path), parents=True)
    folder.authorities.add()
    common = (
        of_all_nodes([one.node_id for one in places])
        | voters_settings(_controllers(places), dynamic=True)
        | replica_settings(len(places))
    )
    for place in places:
        at = installed_in or path / "nodes" / principal_name(place.node_id)
        folder.add_node(place, at, common)
    passwords, servers = drawn_passwords(users), ",".join(one.address(CLIENTS) for one in places)
    for user, password in passwords.items():
        folder.add_client(user, password, servers, path / "clients" / user)
    return passwords


def _format(folder: SecuredFolder, places: Sequence[Place], passwords: Mapping[str, Secret]) -> str:
    data = {one.node_id: folder.node(one.node_id) / "data" for one in places}
    return format_as_one_cluster(data, _controllers(places), first_records(passwords, SystemRandom()))


def _controllers(places: Sequence[Place]) -> dict[int, str]:
    return {one.node_id: one.address(CONTROLLER) for one in places}
