"""RLR³: checklists with hidden targets, verifiers, a GenRM, and a policy beside RLVR (Yu et al., 2026)."""
