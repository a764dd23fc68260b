"""Image downloads from hosts that are not trusted: allowed hosts, public addresses, bounded answers."""
