"""Routes of edge devices, of the people who look after them, and of channels."""
