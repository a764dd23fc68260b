"""Removal of metadata from PNG and JPEG files without touching a pixel.

A photograph says where and when it was taken, by which camera, often with a thumbnail of what was cut off (EXIF, XMP,
IPTC), and phones append whole films behind it. None of this goes to an endpoint. What decides the pixels and their
colours stays, and a file with nothing to remove keeps its bytes.
"""

import re

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_CHUNKS = (b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"cICP", b"sBIT",
               b"bKGD", b"pHYs")  # fmt: skip
_JPEG = b"\xff\xd8\xff"
_JPEG_APPLICATIONS = {0xE0: b"JFIF\0", 0xE2: b"ICC_PROFILE\0", 0xEE: b"Adobe"}
"""Application segments that decoders use: marker → beginning of the content."""
_COMMENT, _START_OF_SCAN, _END = 0xFE, 0xDA, 0xD9
_WITHOUT_LENGTH = (0x01, *range(0xD0, 0xD8))
_NEXT_MARKER = re.compile(rb"\xff+[\x01-\xcf\xd8-\xfe]")
"""First marker behind compressed data, in which 0xff is followed by 0, by a restart marker or by itself."""


def strip_metadata(content: bytes) -> bytes | None:
    """Remove metadata, and what follows the end of the image; return `content` itself if there is none.

    Returns None for a file of another kind, and for one whose structure cannot be followed.
    """
    if content.startswith(_PNG):
        stripped = _strip_png(content)
    elif content.startswith(_JPEG):
        stripped = _strip_jpeg(content)
    else:
        return None
    return content if stripped is not None and len(stripped) == len(content) else stripped


def _strip_png(content: bytes) -> bytes | None:
    parts = [_PNG]
    start = len(_PNG)
    while start + 12 <= len(content):
        end = start + 12 + int.from_bytes(content[start : start + 4], "big")
        kind = content[start + 4 : start + 8]
        if end > len(content):
            return None
        if kind in _PNG_CHUNKS:
            parts.append(content[start:end])
        if kind == b"IEND":
            return b"".join(parts)
        start = end
    return None


def _strip_jpeg(content: bytes) -> bytes | None:
    parts = [content[:2]]
    start = 2
    while start + 2 <= len(content) and content[start] == 0xFF:
        marker = content[start + 1]
        if marker == 0xFF:  # a fill byte
            parts.append(content[start : start + 1])
            start += 1
            continue
        if marker == _END:
            parts.append(content[start : start + 2])
            return b"".join(parts)
        if marker in _WITHOUT_LENGTH:
            parts.append(content[start : start + 2])
            start += 2
            continue
        length = int.from_bytes(content[start + 2 : start + 4], "big")
        end = start + 2 + length
        if length < 2 or end > len(content):
            return None
        if _is_needed(marker, content[start + 4 : end]):
            parts.append(content[start:end])
        if marker == _START_OF_SCAN:
            following = _NEXT_MARKER.search(content, end)
            if following is None:
                return None
            parts.append(content[end : following.start()])
            end = following.start()
        start = end
    return None


def _is_needed(marker: int, segment: bytes) -> bool:
    if marker in _JPEG_APPLICATIONS:
        return segment.startswith(_JPEG_APPLICATIONS[marker])
    return not 0xE0 <= marker <= 0xEF and marker != _COMMENT
