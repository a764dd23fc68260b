"""Rewards in the form that trainers want them: `rubricworks.adapters.trl`."""
