"""Calls that NetworkPolicies allow, by the rules of networking.k8s.io/v1: a pod that no policy selects is open,
one that is selected takes what any of its policies allows, and a call needs both its ends to allow it.
"""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

Json = dict[str, Any]


class Pod(NamedTuple):
    labels: Mapping[str, str]
    namespace: str


class Address(NamedTuple):
    """Something that is no pod."""

    ip: str


End = Pod | Address


def allowed(policies: Iterable[Json], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    policies = list(policies)
    return _lets(policies, "Egress", source, target, port, protocol) and _lets(
        policies, "Ingress", target, source, port, protocol
    )


def _lets(policies: list[Json], way: str, of: End, other: End, port: int, protocol: str) -> bool:
    """Return True if the policies of one end of a call allow it."""
    if isinstance(of, Address):
        return True
    own = [
        policy["spec"]
        for policy in policies
        if way in policy["spec"]["policyTypes"]
        and policy["metadata"]["namespace"] == of.namespace
        and selects(policy["spec"]["podSelector"], of.labels)
    ]
    if not own:
        return True
    rules = [rule for spec in own for rule in spec.get(way.lower(), [])]
    peers = "to" if way == "Egress" else "from"
    return any(
        (not rule.get(peers) or any(_is_peer(peer, of.namespace, other) for peer in rule[peers]))
        and (not rule.get("ports") or any(_is_port(item, port, protocol) for item in rule["ports"]))
        for rule in rules
    )


def selects(selector: Json, labels: Mapping[str, str]) -> bool:
    """Return True if a LabelSelector selects these labels; an empty one selects everything."""
    for term in selector.get("matchExpressions", []):
        value = labels.get(term["key"])
        fits = {
            "Exists": value is not None,
            "DoesNotExist": value is None,
            "In": value in term.get("values", []),
            "NotIn": value not in term.get("values", []),
        }
        if not fits[term["operator"]]:
            return False
    return selector.get("matchLabels", {}).items() <= labels.items()


def _is_peer(peer: Json, namespace: str, other: End) -> bool:
    if "ipBlock" in peer:
        if isinstance(other, Pod):
            return False  # what Cilium says; others differ, so nothing here may depend on it
        block = peer["ipBlock"]
        ip = ip_address(other.ip)
        inside = ip in ip_network(block["cidr"])
        return inside and not any(ip in ip_network(part) for part in block.get("except", []))
    if isinstance(other, Address):
        return False
    if "namespaceSelector" in peer:
        in_namespace = selects(peer["namespaceSelector"], {"kubernetes.io/metadata.name": other.namespace})
    else:
        in_namespace = other.namespace == namespace
    return in_namespace and selects(peer.get("podSelector", {}), other.labels)


def _is_port(item: Json, port: int, protocol: str) -> bool:
    return item.get("protocol", "TCP") == protocol and item["port"] <= port <= item.get("endPort", item["port"])
