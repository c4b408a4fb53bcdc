"""An update: fetch, test, switch, confirm, or go back."""
