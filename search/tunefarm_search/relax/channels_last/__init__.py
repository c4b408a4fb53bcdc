"""The layout with the channels last, in which a vector holds channels of one pixel."""
