"""The native client's examples against a real server: what they show has to be so, and has to be seen not to be without isolation."""

import os
import pathlib
import shutil
import subprocess

import pytest
from server import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ["secondary_index", "foreign_key"]


@pytest.fixture(scope="module")
def examples(kind):
    if kind != "kintsugi":
        pytest.skip("native clients talk to Kintsugi only")
    cargo = os.environ.get("CARGO", "cargo")
    if not shutil.which(cargo):
        pytest.skip("cargo is not installed")
    build = [cargo, "build", "--locked", "--quiet", "-p", "kintsugidb-client", "--examples"]
    subprocess.run(build, cwd=ROOT, check=True, timeout=1200)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug/examples"


def run(examples, name, address, seconds):
    command = [examples / name, address, str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120 + seconds, check=False)


@pytest.mark.parametrize("fabric", ["shm", "tcp"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_belongs_together_is_never_seen_apart(start, examples, tmp_path, name, fabric):
    address = f"shm:{tmp_path}/f.sock" if fabric == "shm" else f"tcp:127.0.0.1:{free_port()}"
    with start(fabric=address):
        done = run(examples, name, address, 2)
    assert done.returncode == 0, done.stderr
    checks, _, rest = done.stdout.partition(" checks")
    assert int(checks) > 0 and rest, done.stdout


@pytest.mark.parametrize("name", EXAMPLES)
def test_without_isolation_the_example_notices(start, examples, tmp_path, name):
    """The canary. Half of a transaction is seen sooner or later, and ends the example."""
    with start(fabric=f"shm:{tmp_path}/f.sock", isolation="none", shards=4, threads=2):
        done = run(examples, name, f"shm:{tmp_path}/f.sock", 60)
    assert done.returncode != 0 and done.stderr.startswith("Error: Unexpected"), done.stderr
