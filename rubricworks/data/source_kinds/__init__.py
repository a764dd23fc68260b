"""Images of each kind of source: folders, Parquet and saved datasets, WebDataset tars, lists of URLs."""
