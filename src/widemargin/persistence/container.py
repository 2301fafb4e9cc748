"""The bytes of a model file: a zip archive whose comment is the SHA-256 of everything before it.

The checksum finds damage (a broken download, a bad disk), not tampering: whoever changes a file can compute a new one.
Against hostile files stand the fixed list of types (`model_file_check.py`) and the size limits here.
"""

import hashlib
import io
import zipfile
from pathlib import Path

from widemargin._files import replace_file
from widemargin.exceptions import ModelFileError

MAX_BYTES = 1 << 29
"""Largest model file, and largest sum of its unpacked parts: 512 MiB."""

_MAX_PARTS = 10_000
INFO = "widemargin.json"
"""The part by which a model file describes itself; files of others have none."""

_MARK = b"widemargin-sha256:"
_DIGEST_LENGTH = 64


def pack(parts: dict[str, bytes]) -> bytes:
    """Zip archive of the parts, ending in the checksum of all bytes before it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in parts.items():
            # A fixed date: the same parts give the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content, zipfile.ZIP_DEFLATED)
        # The archive ends with its comment, after the length of it. So zeros of the checksum's length are written
        # first and replaced below, and the bytes before them stay as they are.
        archive.comment = _MARK + b"0" * _DIGEST_LENGTH
    body = buffer.getvalue()[:-_DIGEST_LENGTH]
    return body + hashlib.sha256(body).hexdigest().encode()


def unpack(data: bytes, name: str) -> dict[str, bytes]:
    """Parts of a packed file, after the checksum has been found right.

    Raises
    ------
    ModelFileError
        `name` is foreign, cut off, damaged, or holds too much.
    """
    body, digest = data[:-_DIGEST_LENGTH], data[-_DIGEST_LENGTH:]
    if not body.endswith(_MARK):
        if data.startswith(b"PK") and (is_packed(data) or not zipfile.is_zipfile(io.BytesIO(data))):
            raise ModelFileError(f"{name}: the file is cut off or damaged ({len(data)} bytes). Copy or save it again")
        raise ModelFileError(
            f"{name}: no widemargin model file. Give a file written by save_model or `widemargin train`"
        )
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ModelFileError(
            f"{name}: the file is damaged (its SHA-256 is not the one written at its end). Copy or save it again"
        )
    return unpack_plain(data, name)


def is_packed(data: bytes) -> bool:
    """Whether these are bytes of a file of `pack`, even where its end, and so its checksum, is lost."""
    return _MARK in data[-2 * _DIGEST_LENGTH :] or INFO.encode() in data


def unpack_plain(data: bytes, name: str) -> dict[str, bytes]:
    """Parts of any zip archive, within the size limits.

    Raises
    ------
    ModelFileError
        `name` is no archive, or holds too much.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if len(entries) > _MAX_PARTS or size > MAX_BYTES:
                raise ModelFileError(
                    f"{name}: {len(entries)} parts of {size} bytes together; at most {_MAX_PARTS} parts and "
                    f"{MAX_BYTES} bytes are read. Such a file is no linear model: look where it comes from"
                )
            if len({entry.filename for entry in entries}) < len(entries):
                raise ModelFileError(f"{name}: two parts have the same name. Save the model again")
            return {entry.filename: archive.read(entry) for entry in entries}
    except ModelFileError:
        raise
    except Exception as error:  # zipfile raises many kinds of errors on a hostile archive
        raise ModelFileError(f"{name}: the archive cannot be read ({error}). Save the model again") from error


def read_file(path: Path) -> bytes:
    """Bytes of a file that is not larger than `MAX_BYTES`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be read ({error.strerror}). Check the path") from error
    if len(data) > MAX_BYTES:
        raise ModelFileError(f"{path}: larger than {MAX_BYTES} bytes. Such a file is no model of this library")
    return data


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        replace_file(path, data)
    except OSError as error:
        raise ModelFileError(f"{path}: the file cannot be written ({error.strerror}). Check the folder") from error
