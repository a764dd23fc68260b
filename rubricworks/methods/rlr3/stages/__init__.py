"""RLR³'s own steps."""
