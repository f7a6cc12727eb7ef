"""Brings a headless Chromium and axe, by which the console is tested: `python -m tools.browser FOLDER`.

Both come from npm, which reaches where Playwright's own downloads do not; nothing but libraries of the system needs
root: `libnss3`, which is fetched where that is possible. A folder that has both is left alone.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

CHROMIUM: Final = "@sparticuz/chromium@147.0.0"
AXE: Final = "axe-core@4.14.1"
LIBRARIES: Final = ("libnss3",)
UNPACK: Final = """
import chromium from "@sparticuz/chromium";
await chromium.executablePath();
"""
LIMIT_S: Final = 600


def main(folder: Path) -> None:
    browser, axe = folder / "chromium", folder / "axe.min.js"
    if browser.exists() and axe.exists():
        return
    if shutil.which("npm") is None or shutil.which("node") is None:
        print("there is no npm or no node: tests of the console in a browser will be skipped")
        return
    print(f"bringing a browser into {folder} (once; 70 MB)")
    folder.mkdir(parents=True, exist_ok=True)
    packages = folder / "packages"
    packages.mkdir(exist_ok=True)
    (packages / "package.json").write_text("{}")
    run("npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", CHROMIUM, AXE, cwd=packages)
    run("node", "--input-type=module", "-e", UNPACK, cwd=packages, unpack_to=folder.resolve())
    shutil.copy(packages / "node_modules" / "axe-core" / axe.name, axe)
    shutil.rmtree(packages)
    if "not found" not in run("ldd", str(browser)):
        print(run(str(browser), "--version").strip())
    elif os.geteuid() == 0 and shutil.which("apt-get"):
        run("apt-get", "update", "-qq")
        run("apt-get", "install", "-y", "-qq", *LIBRARIES)
        print(run(str(browser), "--version").strip())
    else:
        print(f"the browser needs {', '.join(LIBRARIES)}: until it is there, tests in a browser will be skipped")


def run(*words: str, cwd: Path | None = None, unpack_to: Path | None = None) -> str:
    """What it printed; the end of this program if it fails."""
    environment = os.environ | ({"TMPDIR": str(unpack_to)} if unpack_to else {})
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        sys.exit(f"{' '.join(words[:4])} failed: {done.stderr.strip()[-2_000:]}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
