"""Program that reads a torch pickle in a sandbox and writes its tensors as safetensors: `reader.py SOURCE FOLDER`.

It is started as a file, by Python in isolated mode with an empty environment. Before the first byte is read, the
process gives up the network and all files but the source, the folder and its libraries; its time and what it may write
are limited. Torch reads with `weights_only`, which builds tensors and nothing else. It writes one line of JSON to its
output: the number of tensors, or the reason.
"""

import ctypes
import json
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_READ = 1 << 0 | 1 << 2 | 1 << 3
"""Execute, read files and read folders."""
_RULE_PATH_BENEATH = 1
_FILE_RIGHTS = {1: 13, 2: 14, 3: 15}
"""Version of Landlock → number of its rights on files; later versions have 16."""
_SECONDS, _GROWTH, _SPARE = 900, 2, 1 << 30


def enter_sandbox(folder: Path, size: int) -> None:
    """Restrict this process for good: no network, and files of the libraries to read and of the folder to write.

    Raises:
        OSError: the kernel has no Landlock, so there is no sandbox.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.unshare(_NEW_USER | _NEW_NETWORK)  # no network of any kind, where the system allows it
    version = libc.syscall(_CREATE_RULESET, None, 0, 1)
    if version < 1:
        raise OSError(ctypes.get_errno(), "this kernel has no Landlock (Linux 5.13 or newer has it)")
    every_right = (1 << _FILE_RIGHTS.get(version, 16)) - 1
    rules = (ctypes.c_uint64 * 2)(every_right, 3)  # files; TCP's bind and connect
    ruleset = libc.syscall(_CREATE_RULESET, rules, 16 if version >= 4 else 8, 0)
    libraries = {
        sys.prefix,
        sys.base_prefix,
        "/usr",
        "/lib",
        "/lib64",
        "/etc/ld.so.cache",
        "/proc/self",
        "/dev/urandom",
    }
    libraries |= {path for path in sys.path if path}
    for path, rights in [(str(folder), every_right), *((library, _READ) for library in libraries)]:
        if os.path.exists(path):
            _allow(libc, ruleset, path, rights if os.path.isdir(path) else rights & (1 << 0 | 1 << 2))
    limit = size * _GROWTH + _SPARE
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock refused the sandbox")
    os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
    if libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0):
        raise OSError(ctypes.get_errno(), f"Landlock refused {path}")
    os.close(place)


def tensors_of(value: Any, torch: Any) -> dict[str, Any]:
    """Name → tensor of what a checkpoint holds: a state dict, or one below `state_dict` or `model`."""
    for name in ("state_dict", "model_state_dict", "model"):
        if isinstance(value, dict) and isinstance(value.get(name), dict):
            value = value[name]
    tensors = {}
    for name, tensor in value.items() if isinstance(value, dict) else ():
        if isinstance(name, str) and isinstance(tensor, torch.Tensor):
            tensors[name.removeprefix("module.")] = tensor.detach().contiguous().clone()
    return tensors


def _answer(answer: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")


def main(source: str, folder: str) -> None:
    import torch
    import torch._weights_only_unpickler
    from safetensors.torch import save_file

    with open(source, "rb") as file:
        enter_sandbox(Path(folder), os.fstat(file.fileno()).st_size)
        try:
            value = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a pickle may hold anything, and fail in any way
            named = re.search(r"GLOBAL ([\w.]+)", str(error))  # torch's own words advise to read it without protection
            said = f"it calls {named[1]}, and weights call nothing" if named else type(error).__name__
            _answer({"reason": said})
            return
    tensors = tensors_of(value, torch)
    if not tensors:
        _answer({"reason": "it holds no tensors by name"})
        return
    save_file(tensors, Path(folder) / "model.safetensors")
    _answer({"tensors": len(tensors)})


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except OSError as error:
        _answer({"reason": str(error)})
