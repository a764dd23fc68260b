"""Routes of the API and the pages; they hold no rules."""
