"""HTTP to the servers of an endpoint: connections that are kept, exchanges on them, their time limits and errors."""
