"""Models with dynamic dimensions: which ones they have, and one import for several sizes."""
