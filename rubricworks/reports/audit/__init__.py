"""The page of a judge audit: figure, table, cases."""
