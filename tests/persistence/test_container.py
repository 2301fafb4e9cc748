import hashlib
import subprocess
import zipfile

import pytest

from widemargin.exceptions import ModelFileError
from widemargin.persistence.container import pack, read_file, unpack, write_file

PARTS = {"a.json": b"{}", "folder/b.npy": bytes(1000)}


def test_parts_come_back_and_equal_parts_give_equal_bytes():
    assert unpack(pack(PARTS), "x") == PARTS
    assert pack(PARTS) == pack(PARTS)


def test_the_file_is_a_zip_archive_and_the_checksum_can_be_recomputed_by_hand(tmp_path):
    path = tmp_path / "x.skops"
    path.write_bytes(pack(PARTS))
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == sorted(PARTS)
    data = path.read_bytes()
    assert hashlib.sha256(data[:-64]).hexdigest().encode() == data[-64:]
    printed = subprocess.run(f"head -c -64 {path} | sha256sum", shell=True, capture_output=True, check=True).stdout
    assert printed[:64] == data[-64:]


def test_two_parts_of_one_name_are_refused(recwarn):
    data = pack({"a": b"1", "b": b"2"}).replace(b"b", b"a")
    body = data[:-64]
    body = body[: body.rindex(b"wide")] + b"widemargin-sha256:"
    with pytest.raises(ModelFileError, match="two parts have the same name"):
        unpack(body + hashlib.sha256(body).hexdigest().encode(), "x")


def test_too_many_parts_are_refused():
    with pytest.raises(ModelFileError, match="10001 parts"):
        unpack(pack({str(number): b"" for number in range(10_001)}), "x")


def test_a_right_checksum_does_not_help_a_broken_archive():
    body = b"PK\x03\x04 nonsense widemargin-sha256:"
    with pytest.raises(ModelFileError, match="x: the archive cannot be read"):
        unpack(body + hashlib.sha256(body).hexdigest().encode(), "x")


def test_a_broken_part_under_a_right_checksum_is_refused():
    body = bytearray(pack({"a": b"hello " * 100})[:-64])
    body[40:50] = b"\xff" * 10  # inside the packed bytes
    with pytest.raises(ModelFileError, match="x: the archive cannot be read"):
        unpack(bytes(body) + hashlib.sha256(body).hexdigest().encode(), "x")


def test_folders_cannot_be_read_or_written(tmp_path):
    with pytest.raises(ModelFileError, match=r"cannot be read \(Is a directory\)"):
        read_file(tmp_path)
    with pytest.raises(ModelFileError, match="cannot be written"):
        write_file(tmp_path, b"")
    assert list(tmp_path.iterdir()) == []
