"""Carries out the steps of `deploy/container/Containerfile` without Docker, and runs the nodes of `compose.yaml`.

A base image is what debootstrap makes; a stage is a copy of it, and RUN is chroot. Three nodes then run in a network of
their own, each in a chroot that it cannot write to, as nobody special, under its service's environment, where a name
such as node-2 is another address of loopback. Needs root, Debian's packages by debootstrap, and Python's by pip.

    make dist && make container
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
CONTAINERFILE = ROOT / "deploy/container/Containerfile"
COMPOSE = ROOT / "deploy/container/compose.yaml"
WORK = ROOT / "build/container"
SUITE, PACKAGES = "bookworm", "python3,python3-venv,ca-certificates"
PATIENCE_S = 90
SAYS_NOTHING_HERE = {"VOLUME", "EXPOSE", "STOPSIGNAL"}


def steps() -> Iterator[tuple[str, str]]:
    for line in CONTAINERFILE.read_text().splitlines():
        if line and not line.startswith("#"):
            word, _, rest = line.partition(" ")
            yield word, rest


def run(*command: str | Path, **more: object) -> None:
    subprocess.run(command, check=True, **more)  # type: ignore[call-overload]


class Image:
    """One stage: its root, and what the steps say of its processes."""

    def __init__(self, root: Path) -> None:
        shutil.rmtree(root, ignore_errors=True)
        run("cp", "-a", "--reflink=auto", WORK / "base", root)
        self.root = root
        self.environment = {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        self.user = "0:0"
        self.entrypoint: list[str] = []
        self.health: list[str] = []

    def copy(self, rest: str, stages: dict[str, "Image"]) -> None:
        words = shlex.split(rest)
        options = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, target = (word for word in words if not word.startswith("--"))
        within = stages[options["from"]].root if "from" in options else ROOT
        there = self.root / target.lstrip("/")
        found = [path for source in sources for path in within.glob(source.lstrip("/"))]
        assert found, f"nothing is copied by {rest}"
        for path in found:
            if path.is_dir():
                shutil.copytree(path, there, symlinks=True)
                continue
            to = there / path.name if target.endswith("/") else there
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, to)
            to.chmod(int(options.get("chmod", "644"), 8))

    def run(self, command: str) -> None:
        # Python's packages were fetched before: a chroot knows neither this machine's proxies nor its certificates.
        wheels = self.root / "others"
        shutil.copytree(WORK / "others", wheels, dirs_exist_ok=True)
        environment = self.environment | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/others"}
        run("chroot", self.root, "/bin/sh", "-ec", command, env=environment)
        shutil.rmtree(wheels)


def build() -> Image:
    if not (WORK / "base/usr/bin/python3").exists():
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, WORK / "base")
    (wheel,) = (ROOT / "dist").glob("*.whl")
    run(sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", "-d", WORK / "others", wheel)
    stages: dict[str, Image] = {}
    for word, rest in steps():
        if word == "FROM":
            name = rest.partition(" AS ")[2] or "last"
            image = stages[name] = Image(WORK / name)
        elif word == "COPY":
            image.copy(rest, stages)
        elif word == "RUN":
            image.run(rest)
        elif word == "ENV":
            name, _, value = rest.partition("=")
            image.environment[name] = value
        elif word == "USER":
            image.user = rest
        elif word == "ENTRYPOINT":
            image.entrypoint = json.loads(rest)
        elif word == "HEALTHCHECK":
            image.health = json.loads(rest.partition("CMD ")[2])
        else:
            assert word in SAYS_NOTHING_HERE, f"{word} is not known here"
    return image


class Node:
    """One of the services, by its address on loopback."""

    def __init__(self, image: Image, name: str, service: dict[str, dict[str, str]]) -> None:
        assert service["read_only"]
        self.name = name
        self.address = f"127.0.1.{name.rpartition('-')[2]}"
        self.root, self.data = WORK / f"mounted-{name}", WORK / f"data-{name}"
        self.image = image
        shutil.rmtree(self.data, ignore_errors=True)
        self.data.mkdir()
        run("chown", image.user, self.data)
        self.root.mkdir(exist_ok=True)
        run("mount", "--bind", image.root, self.root)
        run("mount", "-o", "remount,bind,ro", self.root)
        run("mount", "--bind", self.data, self.root / "var/lib/penstock")
        run("mount", "-t", "tmpfs", "none", self.root / "tmp")
        run("mount", "-t", "proc", "none", self.root / "proc")
        run("mount", "--bind", "/dev", self.root / "dev")
        own = {key: re.sub(r"\b(0\.0\.0\.0|127\.0\.0\.1)\b", self.address, value) for key, value in
               service["environment"].items() if key != "CLUSTER_ID"}  # fmt: skip
        # Ports of the host, which compose would map, are those inside.
        own["PENSTOCK_ADVERTISED_LISTENERS"] = re.sub(
            r"(HOST://.*):\d+", r"\1:9094", own["PENSTOCK_ADVERTISED_LISTENERS"]
        )
        own["PENSTOCK_PENSTOCK_METRICS_LISTENER"] = own["HEALTH_ADDRESS"] = f"{self.address}:9404"
        cluster_id = re.sub(r"\$\{\w+:-(.*)\}", r"\1", service["environment"]["CLUSTER_ID"])
        self.environment = image.environment | own | {"CLUSTER_ID": cluster_id}
        self.process = self.begin(image.entrypoint)

    def begin(self, command: list[str], **more: object) -> "subprocess.Popen[str]":
        user, _, group = self.image.user.partition(":")
        held = ["setpriv", "--no-new-privs"]
        chroot = [shutil.which("chroot") or "chroot", f"--userspec={user}:{group}", "--groups=", str(self.root)]
        process: subprocess.Popen[str] = subprocess.Popen(
            [*chroot, *held, *command],
            env=self.environment,
            text=True,
            **more,  # type: ignore[call-overload]
        )
        return process

    def succeeds(self, *command: str) -> bool:
        return self.begin(list(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait() == 0


def until(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
        time.sleep(1)
    print(what, flush=True)


def inside() -> None:
    """Within a network and mounts of its own."""
    run("ip", "link", "set", "lo", "up")
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    image = Image.__new__(Image)
    image.__dict__.update(json.loads((WORK / "image.json").read_text()), root=WORK / "last")
    names = "".join(f"127.0.1.{name.rpartition('-')[2]} {name}\n" for name in services)
    (image.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{names}")
    nodes = [Node(image, name, service) for name, service in services.items()]
    first = nodes[0]
    asking = ["--bootstrap-server", f"{first.address}:9094"]
    health = ["penstock", "cluster", "health", *asking]
    for node in nodes:
        until(f"{node.name} is ready", partial(node.succeeds, *image.health, "/health/ready"))
        assert node.succeeds(*image.health)
    assert first.succeeds("penstock", "topics", "--create", "--topic", "t", "--partitions", "6", *asking)
    assert not first.succeeds("touch", "/etc/penstock/other"), "the file system can be written to"
    nodes[2].process.kill()
    nodes[2].process.wait()
    until("the others noticed a death", lambda: not first.succeeds(*health))
    nodes[2].process = nodes[2].begin(image.entrypoint)
    until("all is well again", partial(first.succeeds, *health))
    for node in nodes:
        node.process.terminate()
    assert [node.process.wait() for node in nodes] == [0, 0, 0], "one did not end as it should"
    print("all three stopped as they should", flush=True)


def main() -> None:
    if sys.argv[1:] == ["inside"]:
        inside()
        return
    if os.geteuid() != 0 or shutil.which("debootstrap") is None:
        sys.exit("this needs root, and debootstrap (apt-get install debootstrap)")
    WORK.mkdir(parents=True, exist_ok=True)
    image = build()
    kept = {name: getattr(image, name) for name in ("environment", "user", "entrypoint", "health")}
    (WORK / "image.json").write_text(json.dumps(kept))
    run("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", sys.executable, __file__, "inside")


if __name__ == "__main__":
    main()
