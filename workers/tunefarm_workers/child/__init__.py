"""Entry points of confined children: candidates, comparisons, references, inputs, linking."""
