"""Commands of an installation: its server, tokens and login, and runs and promotions through its API."""
