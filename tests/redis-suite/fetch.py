"""Fetch Redis's source package through apt, without touching the system's apt state.

The suite is Redis's own and stays out of this repository: it is fetched from whatever Debian
mirror apt is configured with. The configured entries are copied as source entries into a private
directory, the indexes are loaded into a private state directory, and the source is unpacked under
`.cache/` (ignored by git). Needs apt and dpkg-dev; needs no root.
"""

import os
import pathlib
import re
import shutil
import subprocess

UPSTREAM = "7.0.15"


class FetchError(Exception):
    """The source package could not be had; the message says why."""


def _source_entries(parts: pathlib.Path) -> None:
    """Copy every configured binary entry that has the component `main` as a source entry."""
    configured = pathlib.Path("/etc/apt")
    files = [configured / "sources.list", *sorted((configured / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file():
            continue
        text = file.read_text(errors="replace")
        if file.suffix == ".sources":
            stanzas = [s for s in re.split(r"\n\s*\n", text) if re.search(r"(?mi)^Components:.*\bmain\b", s)]
            out = "\n\n".join(re.sub(r"(?mi)^Types:.*$", "Types: deb-src", s).strip() for s in stanzas)
        elif file.suffix == ".list":
            rows = [r for r in text.splitlines() if re.match(r"deb\s", r) and re.search(r"\smain\b", r)]
            out = "\n".join(re.sub(r"^deb\s", "deb-src ", r) for r in rows)
        else:
            continue
        if out:
            (parts / file.name).write_text(out + "\n")


def fetch(cache: pathlib.Path) -> pathlib.Path:
    """The directory of the unpacked source, fetched once into `cache`."""
    done = cache / f"redis-{UPSTREAM}"
    if (done / "runtest").is_file():
        return done
    for tool in ("apt-get", "dpkg-source"):
        if not shutil.which(tool):
            raise FetchError(f"{tool} is needed to fetch the source package (Debian: apt-get install dpkg-dev)")
    work = cache / "apt"
    shutil.rmtree(work, ignore_errors=True)
    parts, lists, archives, unpack = (work / d for d in ("parts", "lists", "archives", "unpack"))
    for directory in (parts, lists / "partial", archives / "partial", unpack):
        directory.mkdir(parents=True)
    _source_entries(parts)
    options = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": parts,
        "Dir::State::lists": lists,
        "Dir::Cache": work,
        "Dir::Cache::archives": archives,
        "APT::Sandbox::User": "",
        "Acquire::Languages": "none",
    }
    flags = [f"-o{name}={value}" for name, value in options.items()]
    environment = {**os.environ, "LC_ALL": "C"}

    def apt(*arguments: str) -> str:
        call = subprocess.run(["apt-get", *flags, *arguments], cwd=unpack, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if call.returncode:
            raise FetchError(f"apt-get {' '.join(arguments)} failed:\n{call.stdout[-2000:]}")
        return call.stdout

    apt("-q", "update")
    shown = subprocess.run(["apt-cache", *flags, "showsrc", "redis"], env=environment, text=True,
                           capture_output=True).stdout
    versions = [v for v in re.findall(r"(?m)^Version: (\S+)$", shown) if f":{UPSTREAM}-" in v]
    if not versions:
        raise FetchError(f"the configured Debian mirrors have no source package redis {UPSTREAM}")
    apt("-q", "--download-only", "source", f"redis={versions[-1]}")
    description = next(unpack.glob("*.dsc"))
    subprocess.run(["dpkg-source", "--no-check", "-x", description.name, "source"], cwd=unpack, check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    shutil.rmtree(done, ignore_errors=True)
    (unpack / "source").rename(done)
    shutil.rmtree(work, ignore_errors=True)
    return done


if __name__ == "__main__":
    print(fetch(pathlib.Path(__file__).resolve().parents[2] / ".cache" / "redis-suite"))
