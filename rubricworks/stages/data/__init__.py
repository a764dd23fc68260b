"""Images and questions to tables of samples."""
