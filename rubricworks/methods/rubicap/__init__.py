"""RubiCap: rubrics from a committee's consensus, and a captioner trained on them (Huang et al., 2026)."""
