"""Keep the memory that one training step frees for the next one.

On a CPU every large activation is an `mmap` of its own in glibc's default settings, and its pages go back to the system
after use, to be faulted in again by the next step. For the laptop student that is about a tenth of a step, and up to
half of one at the start of a run, before glibc has adapted its threshold.
"""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> bool:
    """Set glibc's allocator for repeated large temporaries; False where there is no glibc (nothing is changed)."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(
        mallopt(option, size) == 1
        for option, size in ((_M_MMAP_THRESHOLD, 2**30), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    )
