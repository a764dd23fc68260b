"""Text-to-image generators: autoregressive ones over image codes, and flow models."""
