"""The page and the text of a judge audit: figure, table, cases."""
