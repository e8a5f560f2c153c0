"""Which configuration and which plugin files may be used: code that is run is code that the user chose.

A file that another user can change is refused. The plugin files of a ./config.toml that the user did not name are run
only after the user trusted them, once per folder; that is recorded in the user's state home.
"""

import grp
import json
import os
import pwd
import stat
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bot.config.sources import ConfigSources
from bot.core.errors import ConfigError

TRUST_FILE = Path("foxcast") / "trusted_plugin_files.json"
TRUST_REMEDY = "they would run as you; look at them, then run: foxcast trust, or name the configuration with --config"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def find_writable_place(path: Path) -> str:
    """Return who besides its owner can change a file, directly or through its folder; "" if nobody can.

    A group counts as its owner alone if it is the group of one user. A read-only mount and a missing file count as
    safe. Raises OSError.
    """
    for place in (path, path.parent):
        found = place.stat()
        is_shared_place = place != path and bool(found.st_mode & stat.S_ISVTX)
        if is_shared_place or os.statvfs(place).f_flag & os.ST_RDONLY:
            continue
        mode = found.st_mode & _WRITABLE_BY_OTHERS
        if mode & stat.S_IWOTH or (mode and not _is_private_group(found.st_gid)):
            return f"other users can write to {place}; run: chmod go-w {place}"
    return ""


def require_own_config(path: Path) -> None:
    """Raise ConfigError for a configuration file that other users can change."""
    try:
        fault = find_writable_place(path)
    except OSError:
        return  # reported where the file is read
    if fault:
        raise ConfigError(fault)


def plugin_files_objection(files: Sequence[Path], sources: ConfigSources, programs: Sequence[str] = ()) -> str:
    """Return why plugin files and programs must not be run, "" if they may; a missing file is reported elsewhere."""
    for path in files:
        if path.is_file() and (fault := _foreign_file_fault(path)):
            return fault
    if not needs_trust(files, sources, programs):
        return ""
    names = ", ".join([*map(str, files), *programs])
    what = "plugin files and programs" if files and programs else "programs" if programs else "plugin files"
    return f"the {what} of {sources.folder} are not trusted yet ({names}): {TRUST_REMEDY}"


def needs_trust(files: Sequence[Path], sources: ConfigSources, programs: Sequence[str] = ()) -> bool:
    """Return whether a user must trust these plugin files, and programs that settings name, first.

    A configuration that the user named (--config, FOXCAST_CONFIG) and files named by a variable were chosen already.
    """
    document = sources.document
    if document.path is None or document.is_named or document.is_built_in:
        return False
    trusted = _read_trusted().get(os.path.realpath(sources.folder), {})
    waiting = {*programs} - {*map(str, trusted.get("programs", ()))}
    if ("plugin_files",) not in sources.variables:
        waiting |= {os.path.realpath(path) for path in files} - {*map(str, trusted.get("files", ()))}
    return bool(waiting)


def record_trust(files: Sequence[Path], folder: Path, *, at: datetime, programs: Sequence[str] = ()) -> Path:
    """Record that the user trusts these plugin files and programs of a folder; return the file of the record.

    Raises ConfigError.
    """
    path, named = _trust_path(), sorted(os.path.realpath(one) for one in files)
    entry = {"at": at.isoformat(), "files": named, "programs": sorted(programs)}
    text = json.dumps({**_read_trusted(), os.path.realpath(folder): entry}, indent=2, sort_keys=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial.unlink(missing_ok=True)
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
        partial.replace(path)
    except OSError as error:
        message = f"{path}: cannot be written: {error.strerror}; name the configuration with --config instead"
        raise ConfigError(message) from error
    return path


def _foreign_file_fault(path: Path) -> str:
    found = path.stat()
    if found.st_uid not in {0, os.geteuid()} and not os.statvfs(path).f_flag & os.ST_RDONLY:
        return (
            f"the plugin file {path} belongs to another user (id {found.st_uid}); copy it, or take it over with chown"
        )
    return find_writable_place(path)


def _is_private_group(gid: int) -> bool:
    """Return whether only the user of this process is in the group, as where each user has a group of its own."""
    try:
        name, members = pwd.getpwuid(os.geteuid()).pw_name, grp.getgrgid(gid).gr_mem
    except KeyError:
        return False
    own_gids = {user.pw_name for user in pwd.getpwall() if user.pw_gid == gid}
    return {*members, *own_gids} == {name}


def _trust_path() -> Path:
    home = os.environ.get("XDG_STATE_HOME", "")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".local" / "state"
    return base / TRUST_FILE


def _read_trusted() -> Mapping[str, Mapping[str, Any]]:
    """Return what is recorded, by folder; a missing or unreadable record trusts nothing."""
    try:
        found = json.loads(_trust_path().read_bytes())
    except (OSError, ValueError, RuntimeError):  # also nested too deeply
        return {}
    return {name: entry for name, entry in found.items() if isinstance(entry, dict)} if isinstance(found, dict) else {}
