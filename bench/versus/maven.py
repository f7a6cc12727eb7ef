"""Jars that others published, by their coordinates, through Maven; they are kept in a cache outside the repository."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

OLDEST_JAVA = 17
POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock.bench</groupId><artifactId>{name}</artifactId><version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""


class MissingToolError(Exception):
    """Something that this machine must have: the text says what to install."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """Coordinates of a jar. `without`: what it need not bring along, as group:artifact."""

    group: str
    name: str
    version: str
    without: tuple[str, ...] = ()

    def xml(self) -> str:
        """As a dependency in a pom."""
        pairs = [one.split(":") for one in self.without]
        excluded = "".join(
            f"<exclusion><groupId>{group}</groupId><artifactId>{name}</artifactId></exclusion>" for group, name in pairs
        )
        return (
            f"    <dependency><groupId>{self.group}</groupId><artifactId>{self.name}</artifactId>"
            f"<version>{self.version}</version><exclusions>{excluded}</exclusions></dependency>"
        )


def fetch(name: str, artifacts: tuple[Artifact, ...]) -> list[Path]:
    """The jars of `artifacts` and of what they need; MissingToolError where Maven is not installed."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "penstock" / "versus" / name
    pom = POM.format(name=name, dependencies="\n".join(one.xml() for one in artifacts))
    pom_path, jars = folder / "pom.xml", folder / "jars"
    if not (jars.is_dir() and pom_path.exists() and pom_path.read_text() == pom):
        if shutil.which("mvn") is None:
            raise MissingToolError("Maven is missing; it fetches Apache Kafka. Install it, e.g. apt-get install maven")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        draft = folder / "draft.xml"
        draft.write_text(pom)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder / 'draft'}"]
        done = subprocess.run(["mvn", "-B", "-q", "-f", str(draft), *goal], capture_output=True, text=True)
        if done.returncode:
            raise MissingToolError(f"Maven could not fetch {name}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        (folder / "draft").rename(jars)
        draft.rename(pom_path)
    return sorted(jars.glob("*.jar"))


def java_command(name: str, artifacts: tuple[Artifact, ...], main_class: str, *options: str) -> list[str]:
    """How a class out of jars is run."""
    return [java(), *options, "-cp", os.pathsep.join(map(str, fetch(name, artifacts))), main_class]


@cache
def java() -> str:
    """The Java on the path; MissingToolError where there is none that is new enough."""
    found = shutil.which("java")
    if found is not None and java_version() >= OLDEST_JAVA:
        return found
    raise MissingToolError(
        f"Java {OLDEST_JAVA} or newer is missing; it runs Apache Kafka. Install it, "
        "e.g. apt-get install openjdk-17-jre-headless"
    )


@cache
def java_version() -> int:
    """The Java on the path; 0 where there is none."""
    if shutil.which("java") is None:
        return 0
    said = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0
