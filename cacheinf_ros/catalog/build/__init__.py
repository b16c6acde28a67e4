"""From a model to a catalog of its variants: techniques, fine-tuning, measuring."""
