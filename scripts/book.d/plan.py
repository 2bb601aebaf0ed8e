"""The plan: what a book consists of. The comparisons are first, the most important of them at their head; then what takes longer and longer."""

import peer_parts
import published_parts
import scale_parts
import soak_parts
import trust_parts
from measure import PeerError
from part import Part

PARTS: list[Part] = [*peer_parts.PARTS, *trust_parts.PARTS, *scale_parts.PARTS, *published_parts.PARTS, *soak_parts.PARTS]


def chosen(only: list[str] | None) -> list[Part]:
    """The parts that --only names, in the plan's order."""

    def is_meant(part: Part, name: str) -> bool:
        return name in (part.name, part.name.split("/")[0], *part.brokers)

    unknown = [name for name in only or () if not any(is_meant(part, name) for part in PARTS)]
    if unknown:
        raise PeerError(f"no part, kind or broker {', '.join(unknown)}: `scripts/book plan` lists the parts")
    return [part for part in PARTS if only is None or any(is_meant(part, name) for name in only)]
