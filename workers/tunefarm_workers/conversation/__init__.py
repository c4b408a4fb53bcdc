"""Messages between a lane and its children, and the loop that receives them."""
