from rubricworks.components.fetch_champion.component import fetch_champion

__all__ = ["fetch_champion"]
