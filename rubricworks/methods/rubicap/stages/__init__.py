"""Stages that only RubiCap has."""
