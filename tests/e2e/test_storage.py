"""Remote I/O: `kintsugi target` and `kintsugi io` as a person uses them."""

import os
import subprocess

import pytest
from server import binary


@pytest.fixture
def target(tmp_path):
    (tmp_path / "data").write_bytes(os.urandom(5_000_001))
    (tmp_path / "scratch").write_bytes(bytes(6_000_000))
    (tmp_path / "users").write_text("# who may do what\nann:secret:data,scratch=rw\nbob:word:data\n")
    command = [binary(), "target", "--users-file", tmp_path / "users", "--fabric", "tcp:127.0.0.1:0"]
    command += ["--volume", f"data={tmp_path / 'data'}", "--volume", f"scratch={tmp_path / 'scratch'},rw"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on tcp:"), line
        yield tmp_path, line.split()[-1]
    finally:
        process.terminate()
        assert process.wait(30) == 0


def io(target, what, *words, user="ann", password="secret", volume="data"):
    directory, address = target
    (directory / "password").write_text(password + "\n")
    command = [binary(), "io", what, "--fabric", address, "--user", user]
    command += ["--volume", volume] if volume else []
    command += ["--password-file", directory / "password", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_a_volume_is_copied_out_and_in_and_verified(target):
    directory, _ = target
    assert io(target, "stat") == (0, "data: 5000001 bytes, read-only\n", "")
    assert io(target, "copy", ":", directory / "copy")[0] == 0
    assert (directory / "copy").read_bytes() == (directory / "data").read_bytes()
    code, out, _ = io(target, "verify", "--file", directory / "copy")
    assert code == 0 and out.endswith(", the same\n")
    code, out, _ = io(target, "copy", directory / "data", ":", volume="scratch")
    assert code == 0, out
    assert (directory / "scratch").read_bytes()[:5_000_001] == (directory / "data").read_bytes()
    with open(directory / "copy", "r+b") as copy:
        copy.seek(4_500_000)
        byte = copy.read(1)
        copy.seek(4_500_000)
        copy.write(bytes([byte[0] ^ 1]))
    code, _, err = io(target, "verify", "--file", directory / "copy")
    assert code == 1 and "differ at byte 4500000" in err


def test_what_is_trimmed_reads_as_zeros_and_nothing_around_it_does(target):
    directory, _ = target
    (directory / "scratch").write_bytes(b"x" * 6_000_000)
    code, out, err = io(target, "trim", "--offset", "1000000", "--bytes", "3000000", volume="scratch")
    assert (code, out) == (0, "3000000 bytes trimmed\n"), err
    assert (directory / "scratch").read_bytes() == b"x" * 1_000_000 + bytes(3_000_000) + b"x" * 2_000_000
    assert "outside the volume" in io(target, "trim", "--offset", "5999999", "--bytes", "2", volume="scratch")[2]
    assert "read-only" in io(target, "trim", "--offset", "0", "--bytes", "1")[2]


def test_users_see_what_they_were_given(target):
    assert "wrong user or password" in io(target, "stat", password="word")[2]
    assert "no such volume" in io(target, "stat", user="bob", password="word", volume="scratch")[2]
    assert io(target, "stat", user="bob", password="word")[0] == 0
    data = "data: 5000001 bytes, read-only\n"
    assert io(target, "list", volume=None) == (0, data + "scratch: 6000000 bytes, writable\n", "")
    assert io(target, "list", user="bob", password="word", volume=None) == (0, data, "")
    directory, _ = target
    assert "read-only" in io(target, "copy", directory / "users", ":")[2]


def test_what_strace_saw_is_replayed(target):
    directory, _ = target
    lines = [f'1700000000.{i:06} pread64(3</x/data>, ""..., 16384, {i % 300 * 16384}) = 16384' for i in range(1000)]
    (directory / "strace").write_text("\n".join(lines))
    made = subprocess.run([binary(), "io", "trace", directory / "strace", directory / "trace"], capture_output=True, text=True)
    assert made.stdout == "1000 accesses of 1 files\n", made.stderr
    code, out, err = io(target, "replay", directory / "trace", "--threads", "2", "--connections", "2", "--depth", "8")
    assert code == 0 and out.startswith("1000 reads of 16384 bytes"), err


def test_a_network_is_not_trusted_by_default(tmp_path):
    (tmp_path / "data").write_bytes(bytes(4096))
    command = [binary(), "target", "--volume", f"data={tmp_path / 'data'}", "--fabric", "tcp:0.0.0.0:0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "--trust-network" in done.stderr
