"""Database of the platform: tables, engine and migrations."""
