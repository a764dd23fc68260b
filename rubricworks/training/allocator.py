"""glibc allocator settings that keep the memory freed by one training step for the next one.

With glibc's defaults every large activation on a CPU is a separate `mmap`: its pages return to the system after use and
are faulted in again by the next step. For the laptop student this costs about a tenth of a step, and up to half a step
at the start of a run, before glibc adapts its threshold.
"""

import ctypes
import platform

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def keep_freed_memory() -> bool:
    """Configure glibc's allocator for repeated large temporaries; return False if the C library is not glibc."""
    if platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    return all(
        mallopt(option, size) == 1
        for option, size in ((_M_MMAP_THRESHOLD, 2**30), (_M_TRIM_THRESHOLD, 2**31 - 1), (_M_TOP_PAD, 64 * 2**20))
    )
