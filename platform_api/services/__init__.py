"""Rules of the platform, without HTTP: each service reads runs and the database, and changes the latter."""
