"""Several models on one camera, asked at their own rates and served from catalogs."""
