"""General benchmarks of vision-language models: the sets that papers report, and the harness that runs them."""
